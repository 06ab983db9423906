// Tests of how the page reaches the server: the port for its searches, and the code that the page
// of an empty server shows. tests/python runs it.
#include "server/ops_http/first_steps.h"

#include <nlohmann/json.hpp>
#include <string>

#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

class FirstStepsTest : public ::testing::Test {
 protected:
  static void Set(SettingBase& setting, const std::string& value) {
    ASSERT_OK(setting.Set(value, SettingSource::kFlag));
  }
  nlohmann::json Steps(bool needs_key = false, const std::string& host = "") {
    return nlohmann::json::parse(FirstStepsJson(
        {.settings = &settings_, .port = 4321, .http_port = http_port_, .needs_key = needs_key},
        host));
  }
  // Expects that the page cannot search, and that it says why.
  void ExpectOff(const std::string& host, const std::string& why) {
    const nlohmann::json search = Steps(false, host)["search"];
    EXPECT_FALSE(search.contains("url")) << host;
    EXPECT_THAT(search["note"].get<std::string>(), AllOf(StartsWith("off: "), HasSubstr(why)));
  }
  Settings settings_;
  int http_port_ = 4322;
};

TEST_F(FirstStepsTest, SearchesGoToTheHttpPortOfTheHostThatTheVisitorUsed) {
  for (const std::string host : {"localhost", "127.0.0.1", "[::1]"}) {
    const nlohmann::json search = Steps(false, host + ":9464")["search"];
    EXPECT_EQ(
        search,
        nlohmann::json({{"url", "http://" + host + ":4322"}, {"needs_key", false}, {"note", ""}}));
  }
  const nlohmann::json search = Steps(true, "localhost")["search"];
  EXPECT_EQ(search["needs_key"], true);
  EXPECT_THAT(search["note"].get<std::string>(), HasSubstr("API key"));
  Set(settings_.tls_cert, "server.pem");
  EXPECT_EQ(Steps(false, "localhost:9464")["search"]["url"], "https://localhost:4322");
}

TEST_F(FirstStepsTest, WithoutSearchesThePageSaysWhy) {
  for (const char* const host : {"", "search.example:9464", "10.0.0.1:9464"}) {
    ExpectOff(host, "tunnel to it and to port 4322");
  }
  Set(settings_.tls_client_ca, "clients.pem");
  ExpectOff("localhost:9464", "tls_client_ca");
  http_port_ = 0;
  Set(settings_.http_listen, "127.0.0.1:1");
  ExpectOff("localhost:9464", "http_listen = 127.0.0.1:1 is in use");
  Set(settings_.http_listen, "none");
  ExpectOff("localhost:9464", "--http-listen");
}

TEST_F(FirstStepsTest, TheAddressIsThatOfTheListenerWithTheBoundPort) {
  Set(settings_.listen, "127.0.0.1:0");
  EXPECT_EQ(Steps(false, "localhost:9464")["address"], "127.0.0.1:4321");
  Set(settings_.listen, "[::1]:0");
  EXPECT_EQ(Steps()["address"], "[::1]:4321");
  Set(settings_.listen, "unix:/run/nearfield.sock");
  EXPECT_EQ(Steps()["address"], "unix:/run/nearfield.sock");
  EXPECT_THAT(Steps()["shell"].get<std::string>(), HasSubstr("'unix:/run/nearfield.sock' demo"));
}

TEST_F(FirstStepsTest, AWildcardIsTheHostThatTheVisitorUsed) {
  for (const char* const listen : {"0.0.0.0:50051", "[::]:50051"}) {
    Set(settings_.listen, listen);
    EXPECT_EQ(Steps(false, "search.example:9464")["address"], "search.example:4321");
    EXPECT_EQ(Steps(false, "[fd00::1]:9464")["address"], "[fd00::1]:4321");
    EXPECT_EQ(Steps(false, "search.example")["address"], "search.example:4321");
    // Other texts do not become code.
    for (const char* const hostile : {"", "\"); evil(\"", "$(evil)", "a b", "'", "\xff"}) {
      EXPECT_EQ(Steps(false, hostile)["address"], "127.0.0.1:4321") << hostile;
    }
  }
}

TEST_F(FirstStepsTest, TheCodeNamesTheFilesThatTheServerAsksFor) {
  const auto expect = [this](bool needs_key, const std::string& python, const std::string& shell,
                             size_t files) {
    const nlohmann::json steps = Steps(needs_key);
    EXPECT_THAT(steps["python"].get<std::string>(),
                HasSubstr("nearfield.connect(\"127.0.0.1:4321\"" + python + ")."));
    EXPECT_EQ(steps["shell"], "nearfield --address 127.0.0.1:4321" + shell + " demo");
    EXPECT_EQ(steps["files"].size(), files);
  };
  expect(false, "", "", 0);
  expect(true, ", token_file=\"key.txt\"", " --token-file key.txt", 1);
  Set(settings_.tls_cert, "server.pem");
  expect(false, ", ca=\"ca.pem\"", " --ca ca.pem", 1);
  Set(settings_.tls_client_ca, "clients.pem");
  expect(true,
         ", ca=\"ca.pem\", client_cert=\"client.pem\", client_key=\"client.key\", "
         "token_file=\"key.txt\"",
         " --ca ca.pem --client-cert client.pem --client-key client.key --token-file key.txt", 4);
}

}  // namespace
}  // namespace nearfield::server
