// Process: the server program as a separate process. Client: a client of it.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/server_fixture.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not declared by every libc

namespace nearfield::server {

namespace hv = ::grpc::health::v1;

// One server process. The destructor kills it if it still runs.
class Process {
 public:
  // `stderr_fd`: descriptor for the log; -1: the file "/stderr".
  Process(const std::string& fault, const std::vector<std::string>& arguments, int stderr_fd = -1) {
    dir_ = ::testing::TempDir() + "/run_server_XXXXXX";
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    std::vector<std::string> all = {NEARFIELD_FAULTY_SERVER,
                                    "--port-file",
                                    dir_ + "/port",
                                    "--log-format",
                                    "json",
                                    "--log-requests",
                                    "all",
                                    "--data-dir",
                                    "none",
                                    "--ops-listen",
                                    "none",
                                    "--http-listen",
                                    "none"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string variable = "NEARFIELD_FAULT=" + fault;
    std::string port_file = "NEARFIELD_PORT_FILE=" + dir_ + "/port";
    std::string log_requests = "NEARFIELD_LOG_REQUESTS=all";
    std::vector<char*> variables = {variable.data(), port_file.data(), log_requests.data()};
    for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
    variables.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, (dir_ + "/stdout").c_str(), O_WRONLY | O_CREAT,
                                     0600);
    if (stderr_fd >= 0) {
      posix_spawn_file_actions_adddup2(&actions, stderr_fd, 2);
    } else {
      posix_spawn_file_actions_addopen(&actions, 2, (dir_ + "/stderr").c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
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

  pid_t pid() const { return pid_; }
  void Signal(int number) { kill(pid_, number); }
  // Returns the exit code, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Ends the process by SIGTERM. Returns as Wait.
  int Terminate() {
    Signal(SIGTERM);
    return Wait();
  }
  // Returns "127.0.0.1:PORT" once the process listens; empty if it ended before. The file appears
  // complete, through a rename.
  std::string Address() {
    std::string port;
    while (port.empty()) {
      const bool ended = Ended();
      port = Text("/port");
      if (ended && port.empty()) return "";
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
  void AwaitStdout(const std::string& text) { Await("/stdout", text); }
  void AwaitStderr(const std::string& text) { Await("/stderr", text); }

 private:
  void Await(const std::string& file, const std::string& text) {
    EXPECT_TRUE(Eventually([&] { return Ended() || Text(file).find(text) != std::string::npos; }));
    EXPECT_THAT(Text(file), ::testing::HasSubstr(text));
  }
  bool Ended() const {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid != 0;
  }

  std::string dir_;
  pid_t pid_ = -1;
};

// A TCP connection to "127.0.0.1:PORT" that sends nothing.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawConnection& operator=(RawConnection&&) = delete;

 private:
  int fd_;
};

// A port of its own choice, and any further arguments.
inline std::vector<std::string> AnyPort(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"--listen", "127.0.0.1:0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

struct Client {
  explicit Client(const std::string& address)
      : channel(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        retrieval(pb::Retrieval::NewStub(channel)),
        admin(pb::Admin::NewStub(channel)),
        health(hv::Health::NewStub(channel)) {}

  static pb::SearchRequest SearchForOne() {
    return FromText("collection: 'c' queries { vector { values: 1 } }");
  }
  grpc::Status Search(std::chrono::seconds timeout = std::chrono::hours(1)) {
    pb::SearchResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    return retrieval->Search(&context, SearchForOne(), &response);
  }
  std::future<grpc::Status> SearchLater() {
    return std::async(std::launch::async, [this] { return Search(); });
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
    const pb::CreateCollectionRequest request = FromText(
        "name: 'c' dim: 1 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64");
    pb::CreateCollectionResponse response;
    grpc::ClientContext context;
    ASSERT_OK(admin->CreateCollection(&context, request, &response));
  }
  // Waits for the end of the service, which a watch must report.
  void AwaitNotServing() {
    hv::HealthCheckResponse response;
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::Retrieval::Stub> retrieval;
  std::unique_ptr<pb::Admin::Stub> admin;
  std::unique_ptr<hv::Health::Stub> health;
  std::unique_ptr<grpc::ClientContext> watch_context;
  std::unique_ptr<grpc::ClientReader<hv::HealthCheckResponse>> watch;
};

// A server process with a collection "c" and a client of it.
struct ServingProcess : Process {
  explicit ServingProcess(const std::string& fault,
                          const std::vector<std::string>& arguments = AnyPort(), int stderr_fd = -1)
      : Process(fault, arguments, stderr_fd), address(Address()), client(address) {
    client.AwaitServing();
    client.Create();
  }

  const std::string address;
  Client client;
};

}  // namespace nearfield::server
