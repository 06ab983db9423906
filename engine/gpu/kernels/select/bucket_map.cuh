// Monotone maps of keys to buckets: the greatest keys go to bucket 0.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_MAP_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_MAP_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/block_reduce.cuh"
#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {

// By the score. Buckets widen towards the greatest, as the best of many scores thin out: by 2^-y of
// the distance y from the least, in units of the mean's; by straight lines between whole y, so that
// rounding keeps the order.
class ScoreMap {
 public:
  // Of `count` scores.
  __device__ ScoreMap(const ScoreSpread& spread, uint32_t count, uint32_t buckets)
      : low_(ScoreOf(spread.least)), last_(static_cast<float>(buckets - 1)) {
    const float range = ScoreOf(spread.greatest) - low_;
    const float mean = spread.sum * __frcp_rn(static_cast<float>(count)) - low_;
    scale_ = kLog2E * kOneExponent * __frcp_rn(mean);
    // NaN and infinite scores show in the sum.
    valid_ = isfinite(spread.sum) && range > 0.0f && isfinite(scale_) && scale_ > 0.0f;
  }

  // False where the scores do not allow it: NaN, infinite, equal or too close.
  __device__ bool valid() const { return valid_; }

  // The same map, of which the compiler does not know it: buckets computed before are then computed
  // again rather than kept, a register each.
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

// What the keys of a row have in common.
struct KeyBits {
  int idle_order = 0;  // low bits of an order that tell no two scores apart
  int index = 32;      // low bits that tell indices apart

  // The same order in fewer bits.
  __device__ uint64_t Pack(uint64_t key) const {
    const uint64_t order = static_cast<uint64_t>(KeyOrder(key) >> idle_order) << index;
    return order | (key & ((uint64_t{1} << index) - 1));
  }
};

template <typename Scores>
__device__ KeyBits BitsOf(uint32_t n) {
  return {.idle_order = Scores::kIdleOrderBits, .index = 32 - __clz(static_cast<int>(n - 1))};
}

// The ends of some keys' two halves, each by itself.
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

// By the bits of the key: spreads scores of many magnitudes, and equal scores by their index.
class KeyMap {
 public:
  __device__ KeyMap(const KeySpread& spread, KeyBits bits, int bucket_bits)
      : bits_(bits), base_(bits.Pack(spread.least())), last_((1u << bucket_bits) - 1) {
    const int range_bits = 64 - __clzll(static_cast<int64_t>(bits.Pack(spread.greatest()) - base_));
    shift_ = range_bits > bucket_bits ? range_bits - bucket_bits : 0;
  }

  __device__ KeyMap Again() const {  // as ScoreMap's
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

// By the bits of the key, the keys at the lower and at the upper end of the orders each in buckets
// of their own: spreads equal scores by their index where a few others lie far off.
class SplitMap {
 public:
  // lower, upper: of the keys with orders up to the middle, and of the others.
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

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_BUCKET_MAP_CUH_
