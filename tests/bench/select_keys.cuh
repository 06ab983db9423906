// The order of the contract in nearfield/engine/select.h, implemented separately for the
// benchmark's own oracle and baseline: nothing here is shared with the code under test.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "nearfield/engine/select.h"

namespace nearfield::bench {

__device__ inline float ValueOf(float raw) { return raw; }
__device__ inline float ValueOf(__half raw) { return __half2float(raw); }
__device__ inline float ValueOf(__nv_bfloat16 raw) { return __bfloat162float(raw); }

__device__ inline uint32_t BitsOf(float raw) { return __float_as_uint(raw); }
__device__ inline uint32_t BitsOf(__half raw) { return __half_as_ushort(raw); }
__device__ inline uint32_t BitsOf(__nv_bfloat16 raw) { return __bfloat16_as_ushort(raw); }

__device__ inline uint32_t QuietNaN(float) { return 0x7fc00000u; }
__device__ inline uint32_t QuietNaN(__half) { return 0x7e00u; }
__device__ inline uint32_t QuietNaN(__nv_bfloat16) { return 0x7fc0u; }

// Returns the bits of the score as a result states it: +0 for both zeros, one NaN for all.
template <typename Raw>
__device__ uint32_t ResultBits(Raw raw) {
  const float value = ValueOf(raw);
  if (value != value) return QuietNaN(raw);
  return value == 0.0f ? 0u : BitsOf(raw);
}

// Returns the key of a score. A greater key is better, and the keys of a row are unique. NaN has
// the lowest rank.
template <typename Raw>
__device__ uint64_t SortKey(Raw raw, uint32_t index) {
  const float value = ValueOf(raw);
  uint32_t rank = 0;
  if (value == value) {
    const uint32_t bits = value == 0.0f ? 0u : __float_as_uint(value);
    rank = (bits >> 31) != 0 ? ~bits : bits + 0x80000000u;
  }
  return (static_cast<uint64_t>(rank) << 32) | (0xffffffffu - index);
}

__device__ inline uint32_t IndexOf(uint64_t key) {
  return 0xffffffffu - static_cast<uint32_t>(key);
}

// Calls visit(scores) with the pointer cast to its type, one of the floating-point types.
template <typename Visit>
void WithScores(ScoreType type, const void* scores, Visit visit) {
  switch (type) {
    case ScoreType::kFloat16: return visit(static_cast<const __half*>(scores));
    case ScoreType::kBFloat16: return visit(static_cast<const __nv_bfloat16*>(scores));
    default: return visit(static_cast<const float*>(scores));
  }
}

}  // namespace nearfield::bench
