// Pace: the wait of a background thread. Tests replace it to control time.
#ifndef NEARFIELD_SERVER_CATALOG_AUDIT_PACE_H_
#define NEARFIELD_SERVER_CATALOG_AUDIT_PACE_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

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
    std::unique_lock lock(mutex_);
    return !ended_changed_.wait_for(lock, time, [this] { return ended_; });
  }
  void End() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    ended_changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_AUDIT_PACE_H_
