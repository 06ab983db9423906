// Tests of the program in edge cases: without descriptors, with an unread log, on reload.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/process/reader_thread.h"
#include "tests/server/server_process.h"

namespace nearfield::server {
namespace {

grpc::Status CheckHealth(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = hv::Health::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.set_wait_for_ready(true);
  hv::HealthCheckResponse response;
  return stub->Check(&context, hv::HealthCheckRequest(), &response);
}

// Regression: one accept without a free descriptor ended the listener permanently. Idle connections
// of one client blocked all others, including health checks.
TEST(RunServerEdgeTest, AfterARunOutOfDescriptorsNewConnectionsAreServedAgain) {
  ServingProcess process("");
  const std::filesystem::directory_iterator open("/proc/" + std::to_string(process.pid()) + "/fd");
  const auto descriptors = static_cast<rlim_t>(std::distance(begin(open), end(open)));
  const rlimit limit = {.rlim_cur = descriptors + 8, .rlim_max = descriptors + 8};
  ASSERT_EQ(prlimit(process.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  std::vector<RawConnection> idle;
  for (int i = 0; i < 40; ++i) idle.emplace_back(process.address);
  process.AwaitStderr("accepting connections pauses");
  idle.clear();
  EXPECT_OK(CheckHealth(process.address));
  EXPECT_EQ(process.Terminate(), 0);
}

// Regression: serving threads wrote the log. Once its pipe was no longer read, calls and SIGTERM
// blocked.
TEST(RunServerEdgeTest, AFullPipeOfStderrStopsNeitherCallsNorTheEnd) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const std::string page(4096, 'x');
  while (write(ends[1], page.data(), page.size()) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);  // the server's writes block
  ServingProcess process("", AnyPort(), ends[1]);
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(process.client.Search(std::chrono::seconds(60)));
  }
  EXPECT_EQ(process.Terminate(), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(RunServerEdgeTest, SighupReloadsTheLogLevelAndABadFileChangesNothing) {
  const std::string file = ::testing::TempDir() + "/reload_" + std::to_string(getpid()) + ".conf";
  std::ofstream(file) << "log_level = warning\n";
  ServingProcess process("", AnyPort({"--config", file}));
  std::ofstream(file) << "log_level = info\nk_max = 12\n";
  process.Signal(SIGHUP);
  process.AwaitStderr("configuration reloaded");
  process.AwaitStderr("k_max");
  EXPECT_OK(process.client.Search(std::chrono::seconds(60)));
  process.AwaitStderr("\"method\":\"Search\"");
  EXPECT_THAT(process.Text("/stderr"), Not(HasSubstr("engine ready"))) << "of the level info";
  std::ofstream(file) << "log_level = loud\n";
  process.Signal(SIGHUP);
  process.AwaitStderr("is not reloaded");
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("log_level = \\\"loud\\\""));
  EXPECT_EQ(process.Terminate(), 0);
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("\"drained\"")) << "the level stays info";
  unlink(file.c_str());
}

// Regression: the thread of the signals waited for a writer of the FIFO, and SIGTERM did nothing.
TEST(RunServerEdgeTest, AKeyFileThatBlocksOnOpenStopsNoSignal) {
  const std::string file = ::testing::TempDir() + "/fifo_" + std::to_string(getpid()) + ".json";
  std::ofstream(file) << R"({"format": 1, "keys": []})";
  Process process("", AnyPort({"--key-file", file}));
  process.AwaitStderr("serving on");
  unlink(file.c_str());
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  process.Signal(SIGHUP);
  process.AwaitStderr("the keys are not reloaded: those in force stay");
  EXPECT_THAT(process.Text("/stderr"), HasSubstr("is not a regular file"));
  process.Signal(SIGHUP);
  EXPECT_EQ(process.Terminate(), 0);
  unlink(file.c_str());
}

// A read that never returns, as on a network file system whose server is gone.
TEST(ReaderThreadTest, AReadThatHangsDelaysItsEndByOneSecondOnly) {
  const auto gate = std::make_shared<absl::Notification>();
  const auto begun = std::make_shared<absl::Notification>();
  const auto ended = std::make_shared<absl::Notification>();
  {
    ReaderThread thread(
        [gate, begun, ended] {
          begun->Notify();
          gate->WaitForNotification();
          ended->Notify();
        },
        std::chrono::milliseconds::zero());
    thread.Wake();
    begun->WaitForNotification();
  }
  EXPECT_FALSE(ended->HasBeenNotified());
  gate->Notify();
  ended->WaitForNotification();
}

TEST(ReaderThreadTest, EachWakeIsFollowedByARead) {
  std::atomic<int> reads{0};
  ReaderThread thread([&reads] { ++reads; }, std::chrono::milliseconds::zero());
  for (int i = 1; i <= 100; ++i) {
    const int before = reads;
    thread.Wake();
    EXPECT_TRUE(Eventually([&] { return reads > before; }));
  }
}

TEST(ReaderThreadTest, ItReadsOncePerPeriod) {
  std::atomic<int> reads{0};
  const ReaderThread thread([&reads] { ++reads; }, std::chrono::milliseconds(1));
  EXPECT_TRUE(Eventually([&] { return reads >= 3; }));
}

TEST(RunServerEdgeTest, SighupDuringTheStartDoesNotEndTheProcess) {
  Process process("hang_self_test", AnyPort());
  ASSERT_FALSE(process.Address().empty());
  process.Signal(SIGHUP);
  process.AwaitStderr("configuration reloaded");
  EXPECT_EQ(process.Terminate(), 0);
}

}  // namespace
}  // namespace nearfield::server
