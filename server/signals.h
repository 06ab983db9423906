// SIGTERM, SIGINT and SIGHUP, taken by a thread instead of a handler.
#ifndef NEARFIELD_SERVER_SIGNALS_H_
#define NEARFIELD_SERVER_SIGNALS_H_

#include <functional>
#include <thread>

namespace nearfield::server {

// Blocks the signals for this thread and those that it starts: a watcher takes them. Call before
// any thread starts. SIGPIPE is ignored from then on.
void BlockSignals();
// For a program that needs no watcher.
void UnblockSignals();

// Requires BlockSignals. Takes signals that came before it, too.
class SignalWatcher {
 public:
  // Both are called on the watcher's thread. `on_end(number, count)`: SIGTERM or SIGINT; count is 1
  // for the first of them. `on_reload`: SIGHUP.
  SignalWatcher(std::function<void(int number, int count)> on_end, std::function<void()> on_reload);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Loop();

  std::function<void(int, int)> on_end_;
  std::function<void()> on_reload_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SIGNALS_H_
