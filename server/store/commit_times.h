// CommitTimes: which commits are older than a given time, by a clock that cannot be set.
#pragma once

#include <cstdint>
#include <deque>

namespace nearfield::store {

// Not thread-safe.
class CommitTimes {
 public:
  // Samples that are kept; their distance is the maximum age divided by this number.
  static constexpr int64_t kSamplesMax = 1000;

  // Records that `commits` commits had been made at the time `now_s`. Requires: neither decreases.
  // Cost: keeps nothing if the last sample is recent enough.
  void Note(int64_t now_s, int64_t commits, int64_t age_s_max) {
    if (!samples_.empty() && now_s - samples_.back().time_s <= age_s_max / kSamplesMax) return;
    samples_.push_back({.time_s = now_s, .commits = commits});
    while (samples_.size() > 1 && now_s - samples_[1].time_s > age_s_max) samples_.pop_front();
  }
  // Returns a commit number: it and all before it were made more than `age_s_max` ago. 0: none
  // known.
  int64_t OlderThan(int64_t now_s, int64_t age_s_max) const {
    if (samples_.empty() || now_s - samples_.front().time_s <= age_s_max) return 0;
    return samples_.front().commits;
  }

 private:
  struct Sample {
    int64_t time_s = 0;
    int64_t commits = 0;
  };
  std::deque<Sample> samples_;  // oldest first; at most the first is older than the maximum age
};

}  // namespace nearfield::store
