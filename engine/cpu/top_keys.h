// TopKeys: the best k of a stream of order keys (score/order.h), in memory that the caller lends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "engine/base/check.h"
#include "engine/score/order.h"

namespace nearfield::cpu {

// A buffer of about 3 k keys that is cut back to the best k whenever it is full. The k-th best of a
// cut is the threshold, which later keys must exceed. The worst stream (ever better keys) costs one
// selection among Capacity(k) keys for every Capacity(k) - k of them, a random one almost nothing.
class TopKeys {
 public:
  // Returns the storage needed for k, in keys. A larger factor cuts less often; a smaller one stays
  // in cache.
  static constexpr int64_t Capacity(int32_t k) { return int64_t{3} * k + 64; }

  // Requires: k >= 1 and `storage` has room for Capacity(k) keys.
  void Reset(uint64_t* storage, int32_t k) {
    CHECK_GE(k, 1);
    keys_ = storage;
    k_ = k;
    count_ = 0;
    taken_ = 0;
    threshold_ = score::kNoKey;
  }

  // Returns the threshold: keys not above it cannot be among the best k.
  uint64_t threshold() const { return threshold_; }
  // Raises the threshold to `key`. Requires: at least k keys of the same generation reach it.
  void RaiseThreshold(uint64_t key) { threshold_ = std::max(threshold_, key); }

  void Push(uint64_t key) {
    if (key <= threshold_) return;
    DCHECK_LT(count_, Capacity(k_));
    keys_[count_++] = key;
    ++taken_;
    if (count_ == Capacity(k_)) Cut();
  }

  // The kept keys, unordered: the best min(k, keys pushed) above the threshold and possibly others.
  const uint64_t* begin() const { return keys_; }
  const uint64_t* end() const { return keys_ + count_; }
  // Returns how many keys passed the threshold at the time of their Push.
  int64_t taken() const { return taken_; }

 private:
  void Cut() {
    std::nth_element(keys_, keys_ + k_ - 1, keys_ + count_, std::greater<>());
    count_ = k_;
    threshold_ = std::max(threshold_, keys_[k_ - 1]);
  }

  uint64_t* keys_ = nullptr;
  int64_t count_ = 0;
  int64_t taken_ = 0;
  uint64_t threshold_ = score::kNoKey;
  int32_t k_ = 0;
};

}  // namespace nearfield::cpu
