// Timers: calls functions after a time, on one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// Thread-safe. The functions must not block.
class Timers {
 public:
  // Names one timer: its time, then a number.
  using Id = std::pair<TimePoint, int64_t>;

  Timers();
  // Drops the remaining functions without a call.
  ~Timers();

  // Calls `function` once after `wait`, unless it is cancelled before.
  Id Start(std::chrono::milliseconds wait, std::function<void()> function);
  // Drops the function unless it was called already. Does not wait for a function that is running.
  void Cancel(const Id& id);

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::map<Id, std::function<void()>> functions_ ABSL_GUARDED_BY(mutex_);
  int64_t started_count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nearfield::server
