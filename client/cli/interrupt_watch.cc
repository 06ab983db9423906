#include "client/cli/interrupt_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

namespace nearfield::client {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

// Used by the handler, which can reach only static data.
std::atomic<int> signal_received = 0;
std::array<int, 2> wake_pipe = {-1, -1};
std::array<struct sigaction, kSignals.size()> actions_before;

void Wake(char cause) {
  const int error = errno;
  while (::write(wake_pipe[1], &cause, 1) < 0 && errno == EINTR) continue;
  errno = error;
}

void RestoreActions() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &actions_before[i], nullptr);
  }
}

void OnSignal(int number) {
  signal_received = number;
  RestoreActions();  // for the second signal
  Wake(1);
}

}  // namespace

InterruptWatch::InterruptWatch(std::function<void()> on_signal) {
  signal_received = 0;
  // Without descriptors for a pipe a signal ends the process, as it does without this object.
  if (::pipe2(wake_pipe.data(), O_CLOEXEC) != 0) return;
  thread_ = std::thread([on_signal = std::move(on_signal)] {
    char cause = 0;
    while (::read(wake_pipe[0], &cause, 1) < 0 && errno == EINTR) continue;
    if (cause != 0) on_signal();
  });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int number : kSignals) ::sigaddset(&action.sa_mask, number);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptWatch::~InterruptWatch() {
  if (!thread_.joinable()) return;
  RestoreActions();
  Wake(0);
  thread_.join();
  for (const int descriptor : wake_pipe) ::close(descriptor);
}

int InterruptWatch::signal_number() const { return signal_received; }

}  // namespace nearfield::client
