// ScoreFloor: the score that a query's k best rows are known to reach, raised by all threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "engine/score/score.h"

namespace nearfield::cpu {

// The k-th best of the canonical scores added so far, from all generations, or the k-th best of
// lower bounds of scores, whichever is higher. A row whose score is below it is in no answer.
// Thread safety: all functions except Reset may be called concurrently.
class ScoreFloor {
 public:
  // Maximum number of values per Add.
  static constexpr int64_t kAddedMax = 64;

  // The kind of the values of an Add. A row may have one value of each kind.
  enum Kind { kScores, kLowerBounds };

  void Reset(int32_t k) {
    const MutexLock lock(mutex_);
    k_ = static_cast<size_t>(k);
    for (std::vector<float>& best : best_) {
      best.clear();
      best.reserve(k_ + kAddedMax);
    }
    score_.store(score::MinusInfinity(), std::memory_order_relaxed);
  }

  // Returns -inf while fewer than k values are known. May be stale; an older floor is lower.
  float score() const { return score_.load(std::memory_order_relaxed); }

  // Adds values of rows that have not added one of this kind before. Requires: count <= kAddedMax.
  // Cost: O(k + count) if one of them is above the floor.
  void Add(Kind kind, const float* values, int64_t count) {
    CHECK_LE(count, kAddedMax);
    const MutexLock lock(mutex_);
    std::vector<float>& best = best_[kind];
    const size_t before = best.size();
    for (int64_t i = 0; i < count; ++i) {
      if (before < k_ || values[i] > score()) best.push_back(values[i]);
    }
    if (best.size() == before || best.size() < k_) return;
    const auto kth = best.begin() + static_cast<int64_t>(k_) - 1;
    std::nth_element(best.begin(), kth, best.end(), std::greater<>());
    best.resize(k_);
    RaiseLocked(best[k_ - 1]);
  }

  // Raises the floor to a score that k rows reach.
  void Raise(float score) {
    const MutexLock lock(mutex_);
    RaiseLocked(score);
  }

 private:
  void RaiseLocked(float score) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    score_.store(std::max(score, this->score()), std::memory_order_relaxed);
  }

  Mutex mutex_;
  std::vector<float> best_[2] ABSL_GUARDED_BY(mutex_);  // of each kind
  size_t k_ ABSL_GUARDED_BY(mutex_) = 1;
  std::atomic<float> score_{score::MinusInfinity()};
};

}  // namespace nearfield::cpu
