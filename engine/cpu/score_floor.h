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

// The k-th best of the canonical scores added so far, from all generations. A row whose score is
// below it is in no answer. Thread safety: all functions except Reset may be called concurrently.
class ScoreFloor {
 public:
  // Maximum number of scores per Add.
  static constexpr int64_t kAddedMax = 64;

  void Reset(int32_t k) {
    const MutexLock lock(mutex_);
    k_ = static_cast<size_t>(k);
    best_.clear();
    best_.reserve(k_ + kAddedMax);
    score_.store(score::MinusInfinity(), std::memory_order_relaxed);
  }

  // Returns -inf while fewer than k scores are known. May be stale; an older floor is lower.
  float score() const { return score_.load(std::memory_order_relaxed); }

  // Adds the scores of rows not added before. Requires: count <= kAddedMax. Cost: O(k + count) if
  // one of them is above the floor.
  void Add(const float* scores, int64_t count) {
    CHECK_LE(count, kAddedMax);
    const MutexLock lock(mutex_);
    const size_t before = best_.size();
    for (int64_t i = 0; i < count; ++i) {
      if (before < k_ || scores[i] > score()) best_.push_back(scores[i]);
    }
    if (best_.size() == before || best_.size() < k_) return;
    const auto kth = best_.begin() + static_cast<int64_t>(k_) - 1;
    std::nth_element(best_.begin(), kth, best_.end(), std::greater<>());
    best_.resize(k_);
    DCHECK_GE(best_[k_ - 1], score());  // a floor only rises
    score_.store(best_[k_ - 1], std::memory_order_relaxed);
  }

 private:
  Mutex mutex_;
  std::vector<float> best_ ABSL_GUARDED_BY(mutex_);
  size_t k_ ABSL_GUARDED_BY(mutex_) = 1;
  std::atomic<float> score_{score::MinusInfinity()};
};

}  // namespace nearfield::cpu
