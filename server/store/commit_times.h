// CommitTimes: which commits are older than a given time, by a clock that cannot be set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/check.h"

namespace nearfield::store {

// Not thread-safe.
class CommitTimes {
 public:
  // A time is known to the maximum age divided by this number.
  static constexpr int64_t kParts = 1000;

  CommitTimes() { samples_.reserve(kSamplesMax + 1); }

  // Records that the last of `commits` commits was made at the time `now_s`. Allocates nothing.
  // Requires: neither decreases; `age_s_max` is that of all calls.
  void Note(int64_t now_s, int64_t commits, int64_t age_s_max) {
    const size_t count = samples_.size();
    if (count > 1 && now_s - samples_[count - 2].time_s <= age_s_max / kParts) samples_.pop_back();
    samples_.push_back({.time_s = now_s, .commits = commits});
    while (samples_.size() > 1 && now_s - samples_[1].time_s > age_s_max) {
      samples_.erase(samples_.begin());
    }
    DCHECK_LE(samples_.size(), kSamplesMax);
  }
  // Returns a commit number: it and all before it were made more than `age_s_max` ago. 0: none
  // known.
  int64_t OlderThan(int64_t now_s, int64_t age_s_max) const {
    int64_t commits = 0;
    for (const Sample& sample : samples_) {
      if (now_s - sample.time_s <= age_s_max) break;
      commits = sample.commits;
    }
    return commits;
  }

 private:
  // The first and the last of three samples in a row are more than a part of the maximum age apart.
  static constexpr size_t kSamplesMax = 2 * kParts + 4;

  struct Sample {
    int64_t time_s = 0;
    int64_t commits = 0;
  };
  std::vector<Sample> samples_;  // oldest first; the last one is the last commit
};

}  // namespace nearfield::store
