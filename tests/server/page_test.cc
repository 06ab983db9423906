// Tests of the page of the operations port: its files, and that it may call the HTTP port, where
// the pages of all other origins are refused.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "server/http/browser_guard.h"
#include "tests/server/http/http_fixture.h"
#include "tests/server/http_client.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

constexpr char kOwnHost[] = "Host: 127.0.0.1\r\n";

class PageTest : public HttpFixture {
 protected:
  PageTest() { Set(settings_.ops_listen, "127.0.0.1:0"); }

  int ops_port() const { return PortOf(server_->ops_address()); }
  HttpAnswer Get(const std::string& path, const std::string& headers = kOwnHost) {
    return HttpGet(ops_port(), path, headers);
  }
  // Returns the headers that a browser sends for a page of `origin` to `host`, on the HTTP port.
  ApiClient::Headers From(const std::string& origin, const std::string& host = "127.0.0.1") const {
    return {{"Host", host + ":" + std::to_string(port())},
            {"Origin", origin},
            {"Sec-Fetch-Site", "same-site"}};
  }
  std::string Page(const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(ops_port());
  }
};

TEST_F(PageTest, ServesTheFilesOfTheTree) {
  Listen();
  const std::vector<std::pair<std::string, std::string>> files = {
      {"index.html", "text/html"},       {"page.css", "text/css"},
      {"page.js", "text/javascript"},    {"draw.js", "text/javascript"},
      {"figures.js", "text/javascript"}, {"search.js", "text/javascript"},
      {"start.js", "text/javascript"},   {"terms.js", "text/javascript"}};
  for (const auto& [name, type] : files) {
    std::ifstream file(NEARFIELD_PAGE "/" + name, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(content.empty()) << name;
    const HttpAnswer answer = Get(name == "index.html" ? "/" : "/" + name);
    EXPECT_EQ(answer.status, 200) << name;
    EXPECT_EQ(answer.body, content) << name;
    EXPECT_THAT(answer.header,
                AllOf(HasSubstr("\r\nContent-Type: " + type + "; charset=utf-8\r\n"),
                      HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"),
                      HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'"),
                      HasSubstr("require-trusted-types-for 'script'"),
                      HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"),
                      Not(HasSubstr("Access-Control-Allow"))));
  }
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

TEST_F(PageTest, TheFormOfACollectionIsExported) {
  ServeRows();
  const pb::CollectionInfo info = CallOk(&Admin::GetCollection, Named("c")).collection();
  EXPECT_EQ(info.scan_precision(), pb::SCAN_PRECISION_ROWS);
  EXPECT_THAT(Get("/metrics").body,
              HasSubstr("\nnearfield_collection_info{collection=\"c\",dim=\"2\",metric=\"dot\","
                        "dtype=\"float32\",id_type=\"uint64\",scan=\"rows\"} 1\n"));
}

TEST_F(PageTest, TheHistoryHasTheSearchesSinceTheStart) {
  ServeRows();
  const auto searches = [this](const char* list, bool last) {
    const nlohmann::json moments = nlohmann::json::parse(Get("/history.json").body)[list];
    int64_t sum = 0;
    for (const int64_t count : (last ? moments.back() : moments.front())["by_time"]) sum += count;
    return sum;
  };
  for (int i = 0; i < 3; ++i) ASSERT_OK(Search(SearchFor("c", {1, 0})));
  EXPECT_TRUE(Eventually([&] { return searches("recent", true) == 3; }));
  EXPECT_EQ(searches("whole", true), 3);
  EXPECT_EQ(searches("recent", false), 0);
  EXPECT_EQ(searches("whole", false), 0);
}

TEST_F(PageTest, TheFirstStepsHaveTheAddressOfTheServer) {
  ServeEmpty();
  const nlohmann::json start = nlohmann::json::parse(Get("/start.json").body);
  EXPECT_EQ(start["address"], "127.0.0.1:" + std::to_string(server_->port()));
  EXPECT_EQ(start["files"], nlohmann::json::array());
}

// DNS rebinding: the name of another site that leads to loopback.
TEST_F(PageTest, OnLoopbackTheHostMustBeLoopback) {
  ServeRows();
  for (const std::string path : {"/", "/metrics", "/readyz", "/start.json"}) {
    for (const std::string host : {"evil.example", "evil.example:9464", "127.evil.example:9464",
                                   "localhost.evil.example", "[::2]:9464", "10.0.0.1", "unix"}) {
      EXPECT_EQ(Get(path, "Host: " + host + "\r\n").status, 403) << path << " of " << host;
    }
    for (const std::string host :
         {"localhost", "localhost:9464", "127.0.0.1:1", "[::1]", "[::1]:9464"}) {
      EXPECT_EQ(Get(path, "Host: " + host + "\r\n").status, 200) << path << " of " << host;
    }
  }
}

TEST_F(PageTest, BeyondLoopbackEveryHostIsAccepted) {
  Set(settings_.ops_listen, "0.0.0.0:0");
  ServeEmpty();
  for (const char* const path : {"/", "/metrics", "/start.json"}) {
    EXPECT_EQ(Get(path, "Host: nearfield.example:9464\r\n").status, 200);
  }
}

TEST_F(PageTest, ItMayCallTheHttpPort) {
  ServeRows();
  EXPECT_EQ(nlohmann::json::parse(Get("/start.json").body)["search"]["url"],
            "http://127.0.0.1:" + std::to_string(port()));
  EXPECT_THAT(Get("/").header,
              HasSubstr("connect-src 'self' http://*:" + std::to_string(port()) + ";"));
  for (const std::string host : {"127.0.0.1", "localhost", "[::1]"}) {
    const ApiClient::Headers headers = From(Page(host), host);
    ApiClient client(port());
    const std::string search = "/v1/collections/c/search";
    const ApiAnswer preflight = client.Call("OPTIONS", search, "", headers);
    EXPECT_THAT(preflight.Header("Access-Control-Allow-Headers"),
                AllOf(HasSubstr("authorization"), HasSubstr("content-type")));
    EXPECT_EQ(preflight.headers.count("Access-Control-Allow-Methods"), 0u);  // none but POST
    const ApiAnswer found = client.Post(search, kSearch, headers);
    const ApiAnswer lines = client.Post("/v1/collections/c/scan", "{}", headers);
    const ApiAnswer absent = client.Post("/v1/collections/absent/search", kSearch, headers);
    EXPECT_EQ(absent.status, 404);
    for (const ApiAnswer* const answer : {&preflight, &found, &lines, &absent}) {
      EXPECT_EQ(answer->Header("Access-Control-Allow-Origin"), Page(host));
    }
    EXPECT_EQ(preflight.status, 200);
    EXPECT_EQ(found.status, 200);
    EXPECT_EQ(lines.status, 200);
    // The next request on the connection is of no page.
    EXPECT_EQ(client.Get("/v1/limits").headers.count("Access-Control-Allow-Origin"), 0u);
  }
}

TEST_F(PageTest, NoOtherOriginMayCallTheHttpPort) {
  ServeRows();
  const std::vector<std::string> origins = {
      Page("localhost"),    Page() + "0",
      Page() + "/",         "https://127.0.0.1:" + std::to_string(ops_port()),
      "http://127.0.0.1",   "http://127.0.0.1:" + std::to_string(ops_port() + 1),
      Page("evil.example"), "null"};
  for (const std::string& origin : origins) {
    for (const char* const verb : {"OPTIONS", "POST"}) {
      const ApiAnswer answer =
          ApiClient(port()).Call(verb, "/v1/collections/c/count", "{}", From(origin));
      EXPECT_EQ(answer.status, 403) << origin;
      EXPECT_EQ(answer.headers.count("Access-Control-Allow-Origin"), 0u) << origin;
    }
  }
  EXPECT_EQ(
      Post("/v1/collections/c/count", "{}", From(Page("evil.example"), "evil.example")).status,
      403);
}

TEST(OwnPageTest, ItIsOnLoopbackAndOnItsPort) {
  const auto is_own = [](const std::string& host, const std::string& origin, int page_port) {
    return IsFromOwnPage({.host = host, .origin = origin, .fetch_site = "same-site"}, page_port);
  };
  EXPECT_TRUE(is_own("localhost:2", "http://localhost:1", 1));
  EXPECT_TRUE(is_own("[::1]:2", "http://[::1]:1", 1));
  EXPECT_TRUE(is_own("127.0.0.1", "http://127.0.0.1:1", 1));
  EXPECT_TRUE(is_own("localhost:2", "http://localhost", 80));
  EXPECT_FALSE(is_own("localhost:2", "http://localhost:1", 0));  // there is no page
  EXPECT_FALSE(is_own("localhost:2", "http://localhost:0", 0));
  EXPECT_FALSE(is_own("localhost:2", "", 1));
  EXPECT_FALSE(is_own("", "http://:1", 1));
  // Beyond loopback, where HTTP accepts any Host.
  for (const std::string host : {"evil.example", "10.0.0.1", "127.evil.example", "[::2]"}) {
    EXPECT_FALSE(is_own(host + ":2", "http://" + host + ":1", 1)) << host;
  }
}

}  // namespace
}  // namespace nearfield::server
