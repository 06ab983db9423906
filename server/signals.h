// SIGTERM and SIGINT, taken by a thread instead of a handler.
#ifndef NEARFIELD_SERVER_SIGNALS_H_
#define NEARFIELD_SERVER_SIGNALS_H_

#include <functional>
#include <thread>

namespace nearfield::server {

// Construct before any other thread starts: they inherit the blocked signals. SIGPIPE is ignored
// from then on.
class SignalWatcher {
 public:
  // `on_signal(number, count)`: count is 1 for the first signal; called on the watcher's thread.
  explicit SignalWatcher(std::function<void(int number, int count)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Loop();

  std::function<void(int, int)> on_signal_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SIGNALS_H_
