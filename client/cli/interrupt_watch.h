// InterruptWatch: lets a command clean up after Ctrl-C.
#pragma once

#include <functional>
#include <thread>

namespace nearfield::client {

// While an object exists, the first SIGINT, SIGTERM or SIGHUP calls `on_signal` on a thread of its
// own and does not end the process. A second one ends it as usual. A signal that the process
// ignores, such as SIGHUP under nohup, stays ignored. Requires: at most one object at a time.
class InterruptWatch {
 public:
  explicit InterruptWatch(std::function<void()> on_signal);
  ~InterruptWatch();  // restores the handlers, and waits for the end of on_signal
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Returns the signal that came, 0 if none did.
  int signal_number() const;

 private:
  std::thread thread_;
};

}  // namespace nearfield::client
