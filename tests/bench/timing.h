// Timing from the host: warm-up, then the median of many runs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace nearfield::bench {

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Timing {
  double median_us = 0;
  double p99_us = 0;
};

struct Repeats {
  int warmups = 5;
  int runs = 51;            // at most; the median is over all
  double seconds_max = 20;  // stops after this time, but not before 11 runs
};

// Calls run(i) with i = 0, 1, 2, ... Requires: run(i) has finished all its work when it returns.
template <typename Run>
Timing MedianOf(const Repeats& repeats, Run run) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < repeats.warmups; ++i) run(i);
  std::vector<double> times_us;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < repeats.runs; ++i) {
    const Clock::time_point start = Clock::now();
    run(i);
    const Clock::time_point end = Clock::now();
    times_us.push_back(std::chrono::duration<double, std::micro>(end - start).count());
    if (i >= 10 && SecondsSince(begin) > repeats.seconds_max) break;
  }
  std::sort(times_us.begin(), times_us.end());
  return {.median_us = times_us[times_us.size() / 2],
          .p99_us = times_us[(times_us.size() - 1) * 99 / 100]};
}

}  // namespace nearfield::bench
