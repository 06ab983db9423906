// Pace: the wait of a background thread. Tests replace it to control time.
#pragma once

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

// Thread-safe.
class Pace {
 public:
  virtual ~Pace() = default;
  // Returns true after `time`; returns false immediately if the thread must end.
  virtual bool Wait(std::chrono::nanoseconds time) = 0;
  // Ends all present and future waits.
  virtual void End() = 0;
};

class SteadyPace final : public Pace {
 public:
  bool Wait(std::chrono::nanoseconds time) override {
    MutexLock lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + time;
    while (!ended_ && ended_changed_.WaitUntil(lock, end)) {
    }
    return !ended_;
  }
  void End() override {
    {
      const MutexLock lock(mutex_);
      ended_ = true;
    }
    ended_changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar ended_changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace nearfield::server
