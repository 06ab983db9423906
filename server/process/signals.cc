#include "server/process/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <utility>

namespace nearfield::server {

namespace {

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

void BlockSignals() {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void UnblockSignals() {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

SignalWatcher::SignalWatcher(std::function<void(int, int)> on_end, std::function<void()> on_reload)
    : on_end_(std::move(on_end)), on_reload_(std::move(on_reload)) {
  const sigset_t signals = WatchedSignals();
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Loop(); });
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  static_cast<void>(!write(stop_fd_, &one, sizeof(one)));
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void SignalWatcher::Loop() {
  for (int count = 0;;) {
    std::array<pollfd, 2> fds = {pollfd{signal_fd_, POLLIN, 0}, pollfd{stop_fd_, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof(info)) != sizeof(info)) continue;
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGHUP) {
      on_reload_();
    } else {
      on_end_(number, ++count);
    }
  }
}

}  // namespace nearfield::server
