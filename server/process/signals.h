// SignalWatcher: receives SIGTERM, SIGINT and SIGHUP on a thread instead of in a handler.
#pragma once

#include <functional>
#include <thread>

namespace nearfield::server {

// Blocks the signals for this thread and the threads that it starts, so that a watcher receives
// them. Also ignores SIGPIPE. Requires: called before any thread starts.
void BlockSignals();
// Unblocks the signals, for a program that needs no watcher.
void UnblockSignals();

// Also receives signals that arrived before its construction. Requires: BlockSignals was called.
class SignalWatcher {
 public:
  // Both functions are called on the watcher's thread. `on_end(number, count)`: SIGTERM or SIGINT;
  // `count` is 1 for the first of them. `on_reload`: SIGHUP.
  SignalWatcher(std::function<void(int number, int count)> on_end, std::function<void()> on_reload);
  ~SignalWatcher();

 private:
  void Loop();

  std::function<void(int, int)> on_end_;
  std::function<void()> on_reload_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace nearfield::server
