#include "server/listener/acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPauseMin{10};
constexpr milliseconds kPauseMax{250};
// A sweep removes closed connections from the table. This is the minimum interval between sweeps of
// a full table, however fast connections arrive.
constexpr milliseconds kSweepInterval{10};
// Minimum interval between two log lines about refused connections.
constexpr std::chrono::seconds kTellInterval{10};
constexpr int kAcceptsPerRound = 64;
// Time to take the last replies. HAProxy 2.6 loses a reply if its connection ends immediately
// after it.
constexpr milliseconds kLastRepliesWait{100};
// There is no event for the close of a descriptor by its owner.
constexpr int kCloseCheckMs = 1;

int AcceptNow(int listen_fd) {
  return accept4(listen_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

// Returns true if only this connection failed: it ended before it was accepted, or the network
// failed. The next one may succeed.
bool IsOfOneConnection(int error) {
  constexpr std::array kErrors = {EINTR,    ECONNABORTED, EPROTO,     EPERM,
                                  ENETDOWN, ENETUNREACH,  EHOSTDOWN,  EHOSTUNREACH,
                                  ENONET,   ENOPROTOOPT,  EOPNOTSUPP, ETIMEDOUT};
  return absl::c_linear_search(kErrors, error);
}

}  // namespace

Acceptor::Acceptor(std::unique_ptr<ListenSockets> sockets, AcceptorOptions options, Log* log)
    : options_(std::move(options)),
      log_(log),
      sockets_(std::move(sockets)),
      stop_fd_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

Acceptor::~Acceptor() {
  Stop();
  close(stop_fd_);
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(!write(stop_fd_, &one, sizeof(one)));
  thread_.join();
  sockets_ = nullptr;
}

void Acceptor::Disconnect(milliseconds wait) {
  if (AwaitAllClosed(kLastRepliesWait)) return;
  {
    const MutexLock lock(mutex_);
    table_.Shutdown();
  }
  AwaitAllClosed(wait);
}

bool Acceptor::AwaitAllClosed(milliseconds wait) const {
  const auto end = Clock::now() + wait;
  while (counts().open > 0) {
    if (Clock::now() >= end) return false;
    poll(nullptr, 0, kCloseCheckMs);
  }
  return true;
}

AcceptCounts Acceptor::counts() const {
  const MutexLock lock(mutex_);
  table_.Sweep();
  AcceptCounts counts = counts_;
  counts.open = table_.size();
  return counts;
}

void Acceptor::Run() {
  while (Await()) {
    for (const int fd : sockets_->descriptors()) {
      if (!waits_) AcceptRound(fd);
    }
  }
}

bool Acceptor::Await() {
  std::vector<pollfd> fds = {pollfd{stop_fd_, POLLIN, 0}};
  int timeout_ms = -1;
  if (waits_) {
    const auto left = std::chrono::ceil<milliseconds>(wake_at_ - Clock::now());
    timeout_ms = static_cast<int>(std::max<int64_t>(left.count(), 0));
  } else {
    for (const int fd : sockets_->descriptors()) fds.push_back({fd, POLLIN, 0});
  }
  if (poll(fds.data(), fds.size(), timeout_ms) < 0) return true;  // a signal, or no memory
  waits_ = waits_ && Clock::now() < wake_at_;
  return fds.front().revents == 0;
}

void Acceptor::AcceptRound(int listen_fd) {
  bool swept = false;
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    if (!swept && IsFull()) {
      swept = Sweep();
      if (!swept) return;
    }
    const int fd = options_.accept != nullptr ? options_.accept(listen_fd) : AcceptNow(listen_fd);
    if (fd >= 0) {
      Resume();
      Take(fd);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Resume();
    if (!IsOfOneConnection(errno)) return Pause(errno);
  }
}

bool Acceptor::IsFull() const {
  const MutexLock lock(mutex_);
  return table_.size() >= options_.connections_max;
}

bool Acceptor::Sweep() {
  const auto now = Clock::now();
  if (now - swept_at_ < kSweepInterval) {
    waits_ = true;
    wake_at_ = swept_at_ + kSweepInterval;
    return false;
  }
  swept_at_ = now;
  const MutexLock lock(mutex_);
  table_.Sweep();
  return true;
}

void Acceptor::Take(int fd) {
  {
    const MutexLock lock(mutex_);
    if (table_.size() < options_.connections_max) {
      table_.Add(fd);
      ++counts_.accepted;
    } else {
      ++counts_.refused;
      close(std::exchange(fd, -1));
    }
  }
  if (fd >= 0) return options_.on_connection(fd);
  const auto now = Clock::now();
  if (full_told_ && now - told_at_ < kTellInterval) return;
  full_told_ = true;
  told_at_ = now;
  log_->Write(LogLevel::kWarning, "connections are refused: the limit is reached",
              {{"connections_max", options_.connections_max}});
}

void Acceptor::Pause(int error) {
  {
    const MutexLock lock(mutex_);
    ++counts_.pauses;
  }
  if (pause_ == milliseconds(0)) {
    log_->Write(LogLevel::kWarning, "accepting connections pauses",
                {{"error", std::generic_category().message(error)}});
  }
  pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  waits_ = true;
  wake_at_ = Clock::now() + pause_;
}

void Acceptor::Resume() {
  if (pause_ == milliseconds(0)) return;
  pause_ = milliseconds(0);
  log_->Write(LogLevel::kInfo, "accepting connections goes on");
}

}  // namespace nearfield::server
