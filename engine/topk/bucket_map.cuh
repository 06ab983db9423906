// Monotone maps from keys to buckets. The largest keys go to bucket 0.
#pragma once

#include <cstdint>

#include "engine/topk/block_reduce.cuh"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {

// Maps by score. Buckets get wider towards the highest score, because the best of many scores are
// sparse. The bucket falls as e^-y, where y is the distance from the lowest score in units of the
// mean distance. It is computed as a power of two that is linear between integer exponents, so that
// rounding keeps the order.
class ScoreMap {
 public:
  // Builds the map for `count` scores.
  __device__ ScoreMap(const ScoreSpread& spread, uint32_t count, uint32_t buckets)
      : low_(ScoreOf(spread.least)), last_(static_cast<float>(buckets - 1)) {
    const float range = ScoreOf(spread.greatest) - low_;
    const float mean = spread.sum * __frcp_rn(static_cast<float>(count)) - low_;
    scale_ = kLog2E * kOneExponent * __frcp_rn(mean);
    // A NaN or infinite score makes the sum NaN or infinite.
    valid_ = isfinite(spread.sum) && range > 0.0f && isfinite(scale_) && scale_ > 0.0f;
  }

  // Returns false if the scores do not allow the map: NaN, infinite, equal or too close.
  __device__ bool valid() const { return valid_; }

  // Returns the same map, hidden from the compiler: buckets are then computed again instead of
  // being kept in a register each.
  __device__ ScoreMap Again() const {
    ScoreMap again = *this;
    asm volatile("" : "+f"(again.scale_));
    return again;
  }

  __device__ uint32_t operator()(float score) const {
    const float down = fminf((score - low_) * scale_, kExponentsMax * kOneExponent);
    const float share = __int_as_float(0x3f800000 - static_cast<int32_t>(down));
    return static_cast<uint32_t>(share * last_);
  }

 private:
  static constexpr float kLog2E = 1.4426950f;
  static constexpr float kOneExponent = 8388608.0f;  // one step of a float's exponent, as bits
  static constexpr float kExponentsMax = 100.0f;

  const float low_;
  const float last_;
  float scale_ = 0;
  bool valid_ = false;
};

// The bits that distinguish the keys of a row.
struct KeyBits {
  int idle_order = 0;  // low bits of the ordered score that are equal in all
  int index = 32;      // low bits that distinguish indices

  // Returns the key in fewer bits. Packed keys have the same order.
  __device__ uint64_t Pack(uint64_t key) const {
    const uint64_t order = static_cast<uint64_t>(KeyOrder(key) >> idle_order) << index;
    return order | (key & ((uint64_t{1} << index) - 1));
  }
};

template <typename Scores>
__device__ KeyBits BitsOf(uint32_t n) {
  return {.idle_order = Scores::kIdleOrderBits, .index = 32 - __clz(static_cast<int>(n - 1))};
}

// Minimum and maximum of the high halves of a set of keys, and separately of the low halves.
struct KeySpread {
  uint32_t least_order = 0;
  uint32_t greatest_order = 0;
  uint32_t least_low = 0;
  uint32_t greatest_low = 0;

  __device__ uint64_t least() const { return static_cast<uint64_t>(least_order) << 32 | least_low; }
  __device__ uint64_t greatest() const {
    return static_cast<uint64_t>(greatest_order) << 32 | greatest_low;
  }
};

// Maps by the bits of the key. Spreads scores of many magnitudes, and equal scores by their index.
class KeyMap {
 public:
  __device__ KeyMap(const KeySpread& spread, KeyBits bits, int bucket_bits)
      : bits_(bits), base_(bits.Pack(spread.least())), last_((1u << bucket_bits) - 1) {
    const int range_bits = 64 - __clzll(static_cast<int64_t>(bits.Pack(spread.greatest()) - base_));
    shift_ = range_bits > bucket_bits ? range_bits - bucket_bits : 0;
  }

  __device__ KeyMap Again() const {  // see ScoreMap::Again
    KeyMap again = *this;
    asm volatile("" : "+r"(again.shift_));
    return again;
  }

  __device__ uint32_t operator()(uint64_t key) const {
    return last_ - static_cast<uint32_t>((bits_.Pack(key) - base_) >> shift_);
  }

 private:
  const KeyBits bits_;
  const uint64_t base_;
  const uint32_t last_;
  int shift_ = 0;
};

// Maps by the bits of the key, with separate buckets for the lower and the upper half of the
// orders. Spreads equal scores by their index even if a few other scores are far away.
class SplitMap {
 public:
  // lower: spread of the keys with orders up to `middle`; upper: of the others.
  __device__ SplitMap(uint32_t middle, const KeySpread& lower, const KeySpread& upper, KeyBits bits,
                      int bucket_bits)
      : middle_(middle),
        lower_(lower, bits, bucket_bits - 1),
        upper_(upper, bits, bucket_bits - 1),
        half_(1u << (bucket_bits - 1)) {}

  __device__ SplitMap Again() const { return *this; }
  __device__ uint32_t operator()(uint64_t key) const {
    return KeyOrder(key) > middle_ ? upper_(key) : half_ + lower_(key);
  }

 private:
  const uint32_t middle_;
  const KeyMap lower_;
  const KeyMap upper_;
  const uint32_t half_;
};

}  // namespace nearfield::gpu
