// FakeClock: a clock that moves only when a test advances it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "server/scheduler/clock.h"

namespace nearfield::server {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now_.load(); }
  void Advance(std::chrono::nanoseconds time) { now_ = now_.load() + time; }
  void Advance(double us) { Advance(std::chrono::nanoseconds(static_cast<int64_t>(us * 1000))); }

 private:
  std::atomic<TimePoint> now_{TimePoint{} + std::chrono::hours(1)};
};

}  // namespace nearfield::server
