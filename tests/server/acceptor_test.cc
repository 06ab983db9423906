// Tests of accepting connections: shortages, limits, addresses.
#include "server/listener/acceptor.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/listener/connection_table.h"
#include "server/listener/listen_sockets.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kUserTimeout{1000};

std::unique_ptr<ListenSockets> Bind(const std::string& listen) {
  auto sockets = ListenSockets::Bind("listen", listen, kUserTimeout);
  EXPECT_OK(sockets.status());
  return sockets.ok() ? *std::move(sockets) : nullptr;
}

// Returns a blocking connection; -1 if it is refused.
int Connect(int family, int port) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address = {};
  socklen_t size = 0;
  if (family == AF_INET6) {
    auto* six = reinterpret_cast<sockaddr_in6*>(&address);
    *six = {.sin6_family = AF_INET6, .sin6_port = htons(static_cast<uint16_t>(port))};
    six->sin6_addr = in6addr_loopback;
    size = sizeof(*six);
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&address);
    *four = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size = sizeof(*four);
  }
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return fd;
  close(fd);
  return -1;
}

// Blocks until the peer has closed.
bool IsClosedByPeer(int fd) {
  char byte = 0;
  return read(fd, &byte, 1) <= 0;
}

// Collects the accepted connections in order.
class Taken {
 public:
  void Push(int fd) {
    const std::lock_guard lock(mutex_);
    fds_.push_back(fd);
    arrived_.notify_one();
  }
  int Await() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !fds_.empty(); });
    const int fd = fds_.front();
    fds_.pop_front();
    return fd;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<int> fds_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(int64_t connections_max, std::function<int(int)> accept = nullptr) {
    auto sockets = Bind("127.0.0.1:0");
    port_ = sockets->port();
    acceptor_.emplace(std::move(sockets),
                      AcceptorOptions{.connections_max = connections_max,
                                      .on_connection = [this](int fd) { taken_.Push(fd); },
                                      .accept = std::move(accept)},
                      &log_);
  }
  int Connect() { return server::Connect(AF_INET, port_); }

  Taken taken_;
  Log log_{LogFormat::kText, LogLevel::kDebug, [](const std::string&) {}};
  int port_ = 0;
  std::optional<Acceptor> acceptor_;
};

// Regression: one accept without a free descriptor closed the listener permanently.
TEST_F(AcceptorTest, AShortageOfDescriptorsPausesAcceptingAndEndsWithIt) {
  for (const int shortage : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    std::atomic<int> error{shortage};
    std::promise<void> failed_thrice;
    int failures = 0;
    Start(10, [&](int listen_fd) {
      if (error == 0) return accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (++failures == 3) failed_thrice.set_value();
      errno = error;
      return -1;
    });
    const int client = Connect();  // the kernel accepts it
    failed_thrice.get_future().wait();
    error = 0;
    const int server = taken_.Await();
    EXPECT_GE(acceptor_->counts().pauses, 3);
    EXPECT_EQ(acceptor_->counts().open, 1);
    close(server);
    close(client);
    acceptor_.reset();
  }
}

TEST_F(AcceptorTest, AFailureOfOneConnectionDoesNotPause) {
  Start(10, [calls = 0](int listen_fd) mutable {
    if (++calls > 1) return accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC);
    errno = ECONNABORTED;
    return -1;
  });
  const int client = Connect();
  close(taken_.Await());
  EXPECT_EQ(acceptor_->counts().pauses, 0);
  close(client);
}

// The limit applies to open connections. Each connection that ends frees a place, whichever side
// closed it and however its descriptor number is reused.
TEST_F(AcceptorTest, TheConnectionBeyondTheLimitIsClosedAtOnceAndRoomReturns) {
  Start(2);
  const int first = Connect();
  const int second = Connect();
  const int first_server = taken_.Await();
  const int second_server = taken_.Await();
  const int third = Connect();
  EXPECT_TRUE(IsClosedByPeer(third));
  EXPECT_EQ(acceptor_->counts().refused, 1);
  EXPECT_EQ(acceptor_->counts().open, 2);
  // Another socket gets the number in one step: between close() and socket() the acceptor's next
  // accept4() can take it.
  const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(dup2(other, second_server), second_server);
  close(other);
  EXPECT_EQ(acceptor_->counts().open, 1);
  const int fourth = Connect();
  const int fourth_server = taken_.Await();
  EXPECT_EQ(acceptor_->counts().accepted, 3);
  for (const int fd : {first, second, third, fourth, first_server, second_server, fourth_server})
    close(fd);
}

// Regression: for descriptors without SO_COOKIE, such as a pipe, closed connections never left the
// table. After one peak the server refused all connections.
TEST(ConnectionTableTest, ADescriptorWithoutACookieLeavesTheTableWhenItIsClosed) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  ConnectionTable table;
  for (const int fd : ends) table.Add(fd);
  table.Sweep();
  EXPECT_EQ(table.size(), 2);
  close(ends[0]);
  table.Sweep();
  EXPECT_EQ(table.size(), 1);
  const int reused = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(dup2(reused, ends[1]), ends[1]);
  table.Sweep();
  EXPECT_EQ(table.size(), 0) << "the number is that of another descriptor now";
  close(reused);
  close(ends[1]);
}

TEST_F(AcceptorTest, AfterStopTheKernelRefusesAndWhatWasHandedOverStays) {
  Start(2);
  const int client = Connect();
  const int server = taken_.Await();
  acceptor_->Stop();
  EXPECT_EQ(Connect(), -1);
  EXPECT_EQ(write(server, "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(client, &byte, 1), 1);
  close(client);
  close(server);
}

TEST_F(AcceptorTest, DisconnectEndsBothSidesAndReturnsWhenTheOwnerHasClosed) {
  constexpr milliseconds kNever{86400000};
  Start(2);
  const int client = Connect();
  const int server = taken_.Await();
  acceptor_->Stop();
  EXPECT_EQ(write(server, "x", 1), 1);
  auto disconnected = std::async(std::launch::async, [&] { acceptor_->Disconnect(kNever); });
  EXPECT_TRUE(IsClosedByPeer(server));
  char byte = 0;
  EXPECT_EQ(read(client, &byte, 1), 1);
  EXPECT_TRUE(IsClosedByPeer(client));
  EXPECT_EQ(disconnected.wait_for(milliseconds(0)), std::future_status::timeout);
  // Not by close(): ThreadSanitizer would report that the table looks at the descriptor meanwhile.
  syscall(SYS_close, server);
  disconnected.get();
  close(client);
}

TEST_F(AcceptorTest, DisconnectWaitsForAnOwnerNoLongerThanItMay) {
  Start(2);
  const int client = Connect();
  const int server = taken_.Await();
  acceptor_->Stop();
  acceptor_->Disconnect(milliseconds(1));
  EXPECT_EQ(acceptor_->counts().open, 1);
  close(client);
  close(server);
}

TEST_F(AcceptorTest, StopEndsAPauseAtOnce) {
  std::promise<void> failed;
  std::atomic<bool> first{true};
  Start(2, [&](int) {
    if (first.exchange(false)) failed.set_value();
    errno = EMFILE;
    return -1;
  });
  const int client = Connect();
  failed.get_future().wait();
  acceptor_->Stop();
  close(client);
}

TEST(ListenSocketsTest, ASecondListenerOnAnAddressIsAnErrorThatNamesIt) {
  const auto first = Bind("127.0.0.1:0");
  const std::string address = absl::StrCat("127.0.0.1:", first->port());
  EXPECT_THAT(std::string(ListenSockets::Bind("listen", address, kUserTimeout).status().message()),
              HasSubstr(absl::StrCat(
                  "listen = \"", address,
                  "\": cannot be bound: bind: Address already in use; another process")));
  EXPECT_FALSE(
      ListenSockets::Bind("listen", absl::StrCat("0.0.0.0:", first->port()), kUserTimeout).ok());
  EXPECT_FALSE(ListenSockets::Bind("listen", "256.0.0.1:0", kUserTimeout).ok());
}

TEST(ListenSocketsTest, AWildcardTakesBothFamiliesAndANameItsAddresses) {
  const bool has_ipv6 = ListenSockets::Bind("listen", "[::1]:0", kUserTimeout).ok();
  for (const char* listen : {"[::1]:0", "[::]:0", "0.0.0.0:0"}) {
    if (!has_ipv6 && *listen == '[') continue;
    const auto sockets = Bind(listen);
    for (const int family : {AF_INET, AF_INET6}) {
      if (family == AF_INET6 && !has_ipv6) continue;
      const int client = Connect(family, sockets->port());
      EXPECT_EQ(client != -1, family == AF_INET6 || std::string(listen) != "[::1]:0") << listen;
      if (client != -1) close(client);
    }
  }
  const auto named = Bind("localhost:0");
  EXPECT_GE(named->descriptors().size(), 1u);
  EXPECT_NE(named->port(), 0);
}

// Regression: with two lines "127.0.0.1 localhost" in /etc/hosts the start failed, because the
// second bind found the same address in use.
TEST(ListenSocketsTest, AnAddressThatANameHasTwiceIsBoundOnce) {
  sockaddr_in four = {.sin_family = AF_INET};
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in other = four;
  other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  sockaddr_in6 six = {.sin6_family = AF_INET6};
  six.sin6_addr = in6addr_loopback;
  std::vector<addrinfo> list(5);
  const auto put = [&list](size_t place, auto* address, int family) {
    list[place].ai_family = family;
    list[place].ai_addr = reinterpret_cast<sockaddr*>(address);
    list[place].ai_addrlen = sizeof(*address);
    if (place + 1 < list.size()) list[place].ai_next = &list[place + 1];
  };
  put(0, &six, AF_INET6);
  put(1, &four, AF_INET);
  put(2, &four, AF_INET);
  put(3, &other, AF_INET);
  put(4, &six, AF_INET6);
  const std::vector<sockaddr_storage> addresses = DistinctAddresses(list.data());
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_EQ(addresses[0].ss_family, AF_INET6);
  for (const auto& [place, expected] : {std::pair(1, &four), std::pair(2, &other)}) {
    EXPECT_EQ(reinterpret_cast<const sockaddr_in*>(&addresses[place])->sin_addr.s_addr,
              expected->sin_addr.s_addr);
  }
}

TEST(ListenSocketsTest, AUnixSocketInUseIsAnErrorAndAStaleOneIsReplaced) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/acceptor_", getpid());
  const std::string listen = absl::StrCat("unix:", path);
  {
    const auto first = Bind(listen);
    EXPECT_THAT(std::string(ListenSockets::Bind("listen", listen, kUserTimeout).status().message()),
                HasSubstr(path));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the end removes the file";
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.copy(static_cast<char*>(address.sun_path), sizeof(address.sun_path) - 1);
  const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(dead);  // its file stays
  EXPECT_OK(ListenSockets::Bind("listen", listen, kUserTimeout).status());
  std::ofstream(path) << "a file, not a socket";
  EXPECT_FALSE(ListenSockets::Bind("listen", listen, kUserTimeout).ok());
  EXPECT_EQ(access(path.c_str(), F_OK), 0) << "a file is not removed";
  unlink(path.c_str());
}

}  // namespace
}  // namespace nearfield::server
