// The exact product of 16 bytes of two codes.
#pragma once

#include <cstdint>

namespace nearfield::gpu {

__device__ __forceinline__ int32_t Dot16(const uint4& a, const uint4& b, int32_t sum) {
  sum = __dp4a(static_cast<int>(a.x), static_cast<int>(b.x), sum);
  sum = __dp4a(static_cast<int>(a.y), static_cast<int>(b.y), sum);
  sum = __dp4a(static_cast<int>(a.z), static_cast<int>(b.z), sum);
  return __dp4a(static_cast<int>(a.w), static_cast<int>(b.w), sum);
}

}  // namespace nearfield::gpu
