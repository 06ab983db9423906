// Tests of the program as a process: exit codes, signals, the port file, a lost device.
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "tests/server/server_process.h"

namespace nearfield::server {
namespace {

TEST(RunServerTest, ALostDeviceIsUnavailableThenNotServingThenExit3) {
  ServingProcess process("lose_at_search=2");
  EXPECT_OK(process.client.Search());
  EXPECT_THAT(process.client.Search(), HasCode(kUnavailable));
  process.client.AwaitNotServing();
  EXPECT_EQ(process.Wait(), 3);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("the device is lost"));
}

TEST(RunServerTest, SigtermAndSigintDrainAndExit0) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServingProcess process("");
    process.Signal(signal);
    process.client.AwaitNotServing();
    EXPECT_EQ(process.Wait(), 0);
    std::istringstream lines(process.Text("/stderr"));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST(RunServerTest, CallsInFlightFinishBeforeTheEndAndAfterDrainMsAreCancelled) {
  ServingProcess process("hang_search", AnyPort({"--drain-ms", "50"}));
  auto search = process.client.SearchLater();
  while (process.Text("/stderr").find("CreateCollection") == std::string::npos)
    std::this_thread::yield();
  process.Signal(SIGTERM);
  EXPECT_FALSE(search.get().ok());
  EXPECT_EQ(process.Wait(), 0);
}

TEST(RunServerTest, ADeviceLostDuringTheDrainIsExit3) {
  ServingProcess process("lose_in_drain", AnyPort({"--drain-ms", "0"}));
  auto search = process.client.SearchLater();
  process.AwaitStdout("held");
  process.Signal(SIGTERM);
  EXPECT_FALSE(search.get().ok());
  EXPECT_EQ(process.Wait(), 3);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("the device is lost"));
}

// Supervisors kill a process after 30 s. With the default drain_ms the server abandons a call that
// never ends before that. Takes 28 s, the maximum time of an exit.
TEST(RunServerTest, ASearchThatNeverEndsIsLeftBehindWithExit1Within30Seconds) {
  ServingProcess process("deaf_search");
  grpc::ClientContext context;
  const auto stream = process.client.retrieval->SearchStream(&context);
  stream->Write(Client::SearchForOne());
  process.AwaitStdout("held");
  const auto begin = std::chrono::steady_clock::now();
  process.Signal(SIGTERM);
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("calls would not end"));
}

TEST(RunServerTest, ASecondSignalEndsAtOnce) {
  ServingProcess process("hang_search", AnyPort({"--drain-ms", "3600000"}));
  auto search = process.client.SearchLater();
  process.AwaitStdout("held");
  process.Signal(SIGTERM);
  process.client.AwaitNotServing();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_FALSE(search.get().ok());
}

TEST(RunServerTest, ASignalDuringTheSelfTestEndsTheProcess) {
  Process process("hang_self_test", AnyPort());
  ASSERT_FALSE(process.Address().empty());
  EXPECT_EQ(process.Terminate(), 0);
}

TEST(RunServerTest, AFailedSelfTestIsExit4) {
  Process process("self_test", AnyPort());
  EXPECT_EQ(process.Wait(), 4);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("self-test failed"));
  EXPECT_EQ(process.Text("/port"), "") << "the file of the port is left";
}

TEST(RunServerTest, ConfigurationErrorsAreExit2) {
  EXPECT_EQ(Process("no_engine", AnyPort()).Wait(), 2);
  EXPECT_EQ(Process("", {"--k-max", "0"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--no-such-flag"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--config", "/"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--check-config", "--config", "/"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--listen", "256.0.0.1:0"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--listen", "127.0.0.1:0", "--port-file", "/no/such/folder/port"}).Wait(),
            2)
      << "given twice is an error as well";
  Process first("", AnyPort());
  const std::string address = first.Address();
  Process second("", {"--listen", address});
  EXPECT_EQ(second.Wait(), 2);
  EXPECT_THAT(second.Text("/stderr"), HasSubstr("cannot be bound"));
}

TEST(RunServerTest, CheckConfigPrintsAndExits) {
  Process good("", {"--check-config", "--k-max", "12"});
  EXPECT_EQ(good.Wait(), 0);
  EXPECT_THAT(good.Text("/stdout"), HasSubstr("k_max = \"12\"  # flag"));
  EXPECT_EQ(good.Text("/stderr"), "");
  Process bad("", {"--check-config", "--k-max", "many"});
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_THAT(bad.Text("/stderr"), HasSubstr("k_max = \"many\""));
}

TEST(RunServerTest, TheLogTellsTheConfigurationAndWarnsBeyondLoopback) {
  Process refused("", {"--listen", "0.0.0.0:0"});
  EXPECT_EQ(refused.Wait(), 2);
  EXPECT_THAT(refused.Text("/stderr"), HasSubstr("allow_insecure"));
  Process process("", {"--listen", "0.0.0.0:0", "--allow-insecure"});
  Client client(process.Address());
  client.AwaitServing();
  EXPECT_EQ(process.Terminate(), 0);
  const std::string log = process.Text("/stderr");
  EXPECT_THAT(log, HasSubstr("\"configuration\""));
  EXPECT_THAT(log, HasSubstr("\"queue_requests_max\":\"1024\""));
  EXPECT_THAT(log, HasSubstr("beyond loopback"));
  EXPECT_THAT(log, HasSubstr("listening on 0.0.0.0:"));
  EXPECT_THAT(log, Not(HasSubstr("serving on 0.0.0.0:0\"")));
}

}  // namespace
}  // namespace nearfield::server
