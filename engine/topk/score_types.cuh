// The score types that a selection reads, and the 64-bit keys that order their scores: a greater
// key is better, and the keys of a row are unique.
//
// key = ordered bits of the score << 32 | ~index. Ordered bits are monotone in the score, equal for
// both zeros, and 0 for every NaN, which is below those of -inf. Indices stay below 2^32 - 1, so no
// key is 0.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace nearfield::gpu {

inline constexpr uint64_t kNoSelectKey = 0;
// Order of -inf: only NaN has a smaller one.
inline constexpr uint32_t kLeastOrder = 0x007fffffu;

__device__ __forceinline__ uint32_t OrderOf(float score) {
  if (isnan(score)) return 0;
  const uint32_t bits = __float_as_uint(score + 0.0f);  // -0 + 0 is +0
  return (bits & 0x80000000u) != 0 ? ~bits : (bits | 0x80000000u);
}

__device__ __forceinline__ float ScoreOf(uint32_t order) {
  if (order == 0) return __uint_as_float(0x7fc00000u);
  return __uint_as_float((order & 0x80000000u) != 0 ? (order & 0x7fffffffu) : ~order);
}

__device__ __forceinline__ uint64_t KeyOf(float score, uint32_t index) {
  return (static_cast<uint64_t>(OrderOf(score)) << 32) | static_cast<uint32_t>(~index);
}

__device__ __forceinline__ uint32_t KeyOrder(uint64_t key) {
  return static_cast<uint32_t>(key >> 32);
}
__device__ __forceinline__ uint32_t KeyIndex(uint64_t key) { return ~static_cast<uint32_t>(key); }

// Each type has Raw, the form in memory, and converts it to fp32. fp32 holds all three types
// exactly, with kIdleOrderBits unused bits at the low end.
struct Float32Scores {
  using Raw = float;
  static constexpr int kIdleOrderBits = 0;
  __device__ static float Value(Raw raw) { return raw; }
  __device__ static Raw FromValue(float value) { return value; }
};

struct Float16Scores {
  using Raw = __half;
  static constexpr int kIdleOrderBits = 13;
  __device__ static float Value(Raw raw) { return __half2float(raw); }
  __device__ static Raw FromValue(float value) {
    return isnan(value) ? __ushort_as_half(0x7e00) : __float2half_rn(value);
  }
};

struct BFloat16Scores {
  using Raw = __nv_bfloat16;
  static constexpr int kIdleOrderBits = 16;
  __device__ static float Value(Raw raw) { return __bfloat162float(raw); }
  __device__ static Raw FromValue(float value) {
    return isnan(value) ? __ushort_as_bfloat16(0x7fc0) : __float2bfloat16_rn(value);
  }
};

}  // namespace nearfield::gpu
