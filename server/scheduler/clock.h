// Clock: the steady time that the server's waits use. Tests replace it.
#pragma once

#include <chrono>
#include <cstdint>

namespace nearfield::server {

using TimePoint = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
};

class SteadyClock : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

inline int64_t MicrosBetween(TimePoint begin, TimePoint end) {
  return std::chrono::duration_cast<std::chrono::microseconds>(end - begin).count();
}

inline double ExactMicrosBetween(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

}  // namespace nearfield::server
