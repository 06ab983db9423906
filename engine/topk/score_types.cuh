// The score types that a selection reads, and the 64-bit keys that order their scores: a greater
// key is better, and the keys of a row are unique.
//
// key = order of the score << 32 | ~index. The order is 32 bits that are monotone in the score. It
// is equal for both floating-point zeros, and 0 for every NaN, which is below those of -inf.
// Indices stay below 2^32 - 1, so no key is 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "nearfield/engine/score_type.h"

namespace nearfield::gpu {

inline constexpr uint64_t kNoSelectKey = 0;
// Orders of -inf and +inf: only NaN has a smaller order, and no score has a greater one.
inline constexpr uint32_t kLeastOrder = 0x007fffffu;
inline constexpr uint32_t kGreatestOrder = 0xff800000u;

__device__ __forceinline__ uint32_t OrderOf(float score) {
  if (isnan(score)) return 0;
  const uint32_t bits = __float_as_uint(score + 0.0f);  // -0 + 0 is +0
  return (bits & 0x80000000u) != 0 ? ~bits : (bits | 0x80000000u);
}

__device__ __forceinline__ float ScoreOf(uint32_t order) {
  if (order == 0) return __uint_as_float(0x7fc00000u);
  return __uint_as_float((order & 0x80000000u) != 0 ? (order & 0x7fffffffu) : ~order);
}

// Integer scores are compared by their orders.
__device__ __forceinline__ uint32_t OrderOf(uint32_t order) { return order; }

template <typename Score>
__device__ __forceinline__ uint64_t KeyOf(Score score, uint32_t index) {
  return (static_cast<uint64_t>(OrderOf(score)) << 32) | static_cast<uint32_t>(~index);
}

__device__ __forceinline__ uint32_t KeyOrder(uint64_t key) {
  return static_cast<uint32_t>(key >> 32);
}
__device__ __forceinline__ uint32_t KeyIndex(uint64_t key) { return ~static_cast<uint32_t>(key); }

// Each type has Raw, the form in memory, and Score, the form in which scores are compared. fp32 is
// the Score of all floating-point types and holds them exactly, with kIdleOrderBits unused bits at
// the low end of an order. The Score of an integer is its order.
struct FloatScores {
  using Score = float;
  static constexpr uint32_t kLowestOrder = kLeastOrder;      // of all scores but NaN
  static constexpr uint32_t kHighestOrder = kGreatestOrder;  // of all scores
  __device__ static Score OfOrder(uint32_t order) { return ScoreOf(order); }
  // Returns the real number that represents a score where an algorithm divides a range; monotone.
  __device__ static float Real(Score score) { return score; }
  // Returns an order that scores with Real(score) >= real reach, and others do not.
  __device__ static uint32_t OrderOfReal(float real) { return OrderOf(real); }
  __device__ static uint32_t Bits(Score score) { return __float_as_uint(score); }
  __device__ static Score OfBits(uint32_t bits) { return __uint_as_float(bits); }
  __device__ static Score Returned(Score score) { return score + 0.0f; }  // -0 + 0 is +0
};

struct IntegerScores {
  using Score = uint32_t;
  static constexpr int kIdleOrderBits = 0;
  static constexpr uint32_t kLowestOrder = 0;
  static constexpr uint32_t kHighestOrder = 0xffffffffu;
  __device__ static Score OfOrder(uint32_t order) { return order; }
  __device__ static uint32_t Bits(Score score) { return score; }
  __device__ static Score OfBits(uint32_t bits) { return bits; }
  __device__ static Score Returned(Score score) { return score; }
};

struct Float32Scores : FloatScores {
  using Raw = float;
  static constexpr int kIdleOrderBits = 0;
  __device__ static Score Value(Raw raw) { return raw; }
  __device__ static Raw FromValue(Score value) { return value; }
};

struct Float16Scores : FloatScores {
  using Raw = __half;
  static constexpr int kIdleOrderBits = 13;
  __device__ static Score Value(Raw raw) { return __half2float(raw); }
  __device__ static Raw FromValue(Score value) {
    return isnan(value) ? __ushort_as_half(0x7e00) : __float2half_rn(value);
  }
};

struct BFloat16Scores : FloatScores {
  using Raw = __nv_bfloat16;
  static constexpr int kIdleOrderBits = 16;
  __device__ static Score Value(Raw raw) { return __bfloat162float(raw); }
  __device__ static Raw FromValue(Score value) {
    return isnan(value) ? __ushort_as_bfloat16(0x7fc0) : __float2bfloat16_rn(value);
  }
};

// Reals of integers are exact up to 2^24, and rounded above: OrderOfReal is approximate there.
struct Int32Scores : IntegerScores {
  using Raw = int32_t;
  __device__ static float Real(Score score) { return __int2float_rn(FromValue(score)); }
  __device__ static uint32_t OrderOfReal(float real) { return Value(__float2int_ru(real)); }
  __device__ static Score Value(Raw raw) { return static_cast<uint32_t>(raw) ^ 0x80000000u; }
  __device__ static Raw FromValue(Score value) { return static_cast<int32_t>(value ^ 0x80000000u); }
};

struct Uint32Scores : IntegerScores {
  using Raw = uint32_t;
  __device__ static float Real(Score score) { return __uint2float_rn(score); }
  __device__ static uint32_t OrderOfReal(float real) { return __float2uint_ru(real); }
  __device__ static Score Value(Raw raw) { return raw; }
  __device__ static Raw FromValue(Score value) { return value; }
};

// Returns visit(Scores{}) for the Scores of a type.
#pragma nv_exec_check_disable
template <typename Visit>
__host__ __device__ auto WithScores(ScoreType type, const Visit& visit) {
  switch (type) {
    case ScoreType::kFloat32: return visit(Float32Scores{});
    case ScoreType::kFloat16: return visit(Float16Scores{});
    case ScoreType::kBFloat16: return visit(BFloat16Scores{});
    case ScoreType::kInt32: return visit(Int32Scores{});
    case ScoreType::kUint32: break;
  }
  return visit(Uint32Scores{});
}

}  // namespace nearfield::gpu
