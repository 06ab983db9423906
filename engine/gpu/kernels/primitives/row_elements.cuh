// The three row types as the device reads them: the raw bits of one lane's four elements, and their
// exact fp64 values.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace nearfield::gpu {

struct Float32Row {
  using Element = uint32_t;
  using Quad = uint4;  // four elements: 16 bytes
  static constexpr int kBytes = 4;
  __device__ static double Value(uint32_t bits) {
    return static_cast<double>(__uint_as_float(bits));
  }
  template <int kIndex>
  __device__ static double ValueOf(const Quad& quad) {
    return Value(kIndex == 0 ? quad.x : kIndex == 1 ? quad.y : kIndex == 2 ? quad.z : quad.w);
  }
  __device__ static Quad Pack(const Element (&e)[4]) { return uint4{e[0], e[1], e[2], e[3]}; }
};

// Both 16-bit types: four elements in 8 bytes.
template <typename Derived>
struct NarrowRow {
  using Element = uint16_t;
  using Quad = uint2;
  static constexpr int kBytes = 2;
  template <int kIndex>
  __device__ static double ValueOf(const Quad& quad) {
    const uint32_t word = kIndex < 2 ? quad.x : quad.y;
    return Derived::Value(static_cast<uint16_t>(kIndex % 2 == 0 ? word & 0xffffu : word >> 16));
  }
  __device__ static Quad Pack(const Element (&e)[4]) {
    return uint2{e[0] | (static_cast<uint32_t>(e[1]) << 16),
                 e[2] | (static_cast<uint32_t>(e[3]) << 16)};
  }
};

struct Float16Row : NarrowRow<Float16Row> {
  __device__ static double Value(uint16_t bits) {
    return static_cast<double>(__half2float(__ushort_as_half(bits)));
  }
};

struct BFloat16Row : NarrowRow<BFloat16Row> {
  __device__ static double Value(uint16_t bits) {
    return static_cast<double>(__uint_as_float(static_cast<uint32_t>(bits) << 16));
  }
};

// Loads without allocating in L1: row data is read once and would only evict the queries.
__device__ inline void LoadStreaming(const uint4* address, uint4& value) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
}
__device__ inline void LoadStreaming(const uint2* address, uint2& value) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(address));
}

}  // namespace nearfield::gpu
