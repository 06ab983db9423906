// ReaderThread: a thread for reads of files that may hang, for example on a network file system.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace nearfield::server {

class ReaderThread {
 public:
  // Calls `read` on the thread after each Wake, and each time that `period` has passed without one;
  // a period of zero never passes. `read` must own all that it uses: while it hangs, it outlives
  // this object.
  ReaderThread(std::function<void()> read, std::chrono::milliseconds period);
  // Waits at most one second for a call of `read` that runs, and then abandons it.
  ~ReaderThread();
  ReaderThread(const ReaderThread&) = delete;
  ReaderThread& operator=(const ReaderThread&) = delete;

  // Never waits. Calls during one call of `read` cause one more.
  void Wake();

 private:
  struct Shared;

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace nearfield::server
