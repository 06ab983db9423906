// The program as a process: exit codes, signals, the port file, a lost device.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not declared by every libc

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace hv = ::grpc::health::v1;

// One server process; killed where a test leaves it behind.
class Process {
 public:
  Process(const std::string& fault, const std::vector<std::string>& arguments) {
    dir_ = ::testing::TempDir() + "/run_server_XXXXXX";
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    std::vector<std::string> all = {NEARFIELD_FAULTY_SERVER,
                                    "--port-file",
                                    dir_ + "/port",
                                    "--log-format",
                                    "json",
                                    "--data-dir",
                                    "none"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string variable = "NEARFIELD_FAULT=" + fault;
    std::string port_file = "NEARFIELD_PORT_FILE=" + dir_ + "/port";
    std::vector<char*> variables = {variable.data(), port_file.data()};
    for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
    variables.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, (dir_ + "/stdout").c_str(), O_WRONLY | O_CREAT,
                                     0600);
    posix_spawn_file_actions_addopen(&actions, 2, (dir_ + "/stderr").c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), variables.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int number) { kill(pid_, number); }
  // The exit code, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // "127.0.0.1:PORT", once it listens; empty where it ended before. The file appears whole, by a
  // rename.
  std::string Address() {
    std::string port;
    while (port.empty()) {
      siginfo_t info{};
      waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
      port = Text("/port");
      if (info.si_pid != 0 && port.empty()) return "";
      std::this_thread::yield();
    }
    EXPECT_EQ(port.back(), '\n');
    return "127.0.0.1:" + port.substr(0, port.size() - 1);
  }
  std::string Text(const std::string& file) const {
    std::stringstream text;
    text << std::ifstream(dir_ + file).rdbuf();
    return text.str();
  }
  void AwaitStdout(const std::string& text) {
    while (Text("/stdout").find(text) == std::string::npos) std::this_thread::yield();
  }

 private:
  std::string dir_;
  pid_t pid_ = -1;
};

struct Client {
  explicit Client(const std::string& address)
      : channel(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        retrieval(pb::Retrieval::NewStub(channel)),
        admin(pb::Admin::NewStub(channel)),
        health(hv::Health::NewStub(channel)) {}

  grpc::Status Search() {
    pb::SearchRequest request;
    request.set_collection("c");
    request.add_queries()->mutable_vector()->add_values(1);
    pb::SearchResponse response;
    grpc::ClientContext context;
    return retrieval->Search(&context, request, &response);
  }
  // Opens a watch and returns once the server serves.
  void AwaitServing() {
    watch_context = std::make_unique<grpc::ClientContext>();
    watch_context->set_wait_for_ready(true);
    watch = health->Watch(watch_context.get(), hv::HealthCheckRequest());
    hv::HealthCheckResponse response;
    while (response.status() != hv::HealthCheckResponse::SERVING)
      ASSERT_TRUE(watch->Read(&response));
  }
  void Create() {
    pb::CreateCollectionRequest request;
    request.set_name("c");
    request.set_dim(1);
    request.set_metric(pb::METRIC_DOT);
    request.set_dtype(pb::DATA_TYPE_FLOAT32);
    request.set_id_type(pb::ID_TYPE_UINT64);
    pb::CreateCollectionResponse response;
    grpc::ClientContext context;
    ASSERT_THAT(admin->CreateCollection(&context, request, &response),
                HasCode(grpc::StatusCode::OK));
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Retrieval::Stub> retrieval;
  std::unique_ptr<pb::Admin::Stub> admin;
  std::unique_ptr<hv::Health::Stub> health;
  std::unique_ptr<grpc::ClientContext> watch_context;
  std::unique_ptr<grpc::ClientReader<hv::HealthCheckResponse>> watch;
};

const std::vector<std::string> kAnyPort = {"--listen", "127.0.0.1:0"};

TEST(RunServerTest, ALostDeviceIsUnavailableThenNotServingThenExit3) {
  Process process("lose_at_search=2", kAnyPort);
  Client client(process.Address());
  client.AwaitServing();
  client.Create();
  EXPECT_THAT(client.Search(), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(client.Search(), HasCode(grpc::StatusCode::UNAVAILABLE));
  hv::HealthCheckResponse response;
  ASSERT_TRUE(client.watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(process.Wait(), 3);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("the device is lost"));
}

TEST(RunServerTest, SigtermAndSigintDrainAndExit0) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Process process("", kAnyPort);
    Client client(process.Address());
    client.AwaitServing();
    client.Create();
    process.Signal(signal);
    hv::HealthCheckResponse response;
    ASSERT_TRUE(client.watch->Read(&response));
    EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
    EXPECT_EQ(process.Wait(), 0);
    std::istringstream lines(process.Text("/stderr"));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

TEST(RunServerTest, CallsInFlightFinishBeforeTheEndAndAfterDrainMsAreCancelled) {
  Process process("hang_search", {"--listen", "127.0.0.1:0", "--drain-ms", "50"});
  Client client(process.Address());
  client.AwaitServing();
  client.Create();
  auto search = std::async(std::launch::async, [&] { return client.Search(); });
  while (process.Text("/stderr").find("CreateCollection") == std::string::npos)
    std::this_thread::yield();
  process.Signal(SIGTERM);
  EXPECT_FALSE(search.get().ok());
  EXPECT_EQ(process.Wait(), 0);
}

TEST(RunServerTest, ADeviceLostDuringTheDrainIsExit3) {
  Process process("lose_in_drain", {"--listen", "127.0.0.1:0", "--drain-ms", "0"});
  Client client(process.Address());
  client.AwaitServing();
  client.Create();
  auto search = std::async(std::launch::async, [&] { return client.Search(); });
  process.AwaitStdout("held");
  process.Signal(SIGTERM);
  EXPECT_FALSE(search.get().ok());
  EXPECT_EQ(process.Wait(), 3);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("the device is lost"));
}

// Takes the ten seconds that cancelled calls get.
TEST(RunServerTest, ASearchThatNeverEndsIsLeftBehindWithExit1) {
  Process process("deaf_search", {"--listen", "127.0.0.1:0", "--drain-ms", "0"});
  Client client(process.Address());
  client.AwaitServing();
  client.Create();
  grpc::ClientContext context;
  const auto stream = client.retrieval->SearchStream(&context);
  pb::SearchRequest request;
  request.set_collection("c");
  request.add_queries()->mutable_vector()->add_values(1);
  stream->Write(request);
  process.AwaitStdout("held");
  process.Signal(SIGTERM);
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("calls would not end"));
}

TEST(RunServerTest, ASecondSignalEndsAtOnce) {
  Process process("hang_search", {"--listen", "127.0.0.1:0", "--drain-ms", "3600000"});
  Client client(process.Address());
  client.AwaitServing();
  client.Create();
  auto search = std::async(std::launch::async, [&] { return client.Search(); });
  process.AwaitStdout("held");
  process.Signal(SIGTERM);
  hv::HealthCheckResponse response;
  ASSERT_TRUE(client.watch->Read(&response));  // it drains
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_FALSE(search.get().ok());
}

TEST(RunServerTest, ASignalDuringTheSelfTestEndsTheProcess) {
  Process process("hang_self_test", kAnyPort);
  ASSERT_FALSE(process.Address().empty());
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
}

TEST(RunServerTest, AFailedSelfTestIsExit4) {
  Process process("self_test", kAnyPort);
  EXPECT_EQ(process.Wait(), 4);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("self-test failed"));
}

TEST(RunServerTest, ConfigurationErrorsAreExit2) {
  EXPECT_EQ(Process("no_engine", kAnyPort).Wait(), 2);
  EXPECT_EQ(Process("", {"--k-max", "0"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--no-such-flag"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--config", "/"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--check-config", "--config", "/"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--listen", "256.0.0.1:0"}).Wait(), 2);
  EXPECT_EQ(Process("", {"--listen", "127.0.0.1:0", "--port-file", "/no/such/folder/port"}).Wait(),
            2)
      << "given twice is an error as well";
  Process first("", kAnyPort);
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
  Process process("", {"--listen", "0.0.0.0:0"});
  Client client(process.Address());
  client.AwaitServing();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  const std::string log = process.Text("/stderr");
  EXPECT_THAT(log, HasSubstr("\"configuration\""));
  EXPECT_THAT(log, HasSubstr("\"queue_requests_max\":\"1024\""));
  EXPECT_THAT(log, HasSubstr("beyond loopback"));
  EXPECT_THAT(log, HasSubstr("listening on 0.0.0.0:"));
  EXPECT_THAT(log, Not(HasSubstr("serving on 0.0.0.0:0\"")));
}

}  // namespace
}  // namespace nearfield::server
