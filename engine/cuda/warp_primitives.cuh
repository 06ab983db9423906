// Reductions, prefix sum, reservation of slots, rank by counting, and the bin of the k-th item. All
// lanes of a warp call every function.
#pragma once

#include <cstdint>

#include "engine/cuda/warp.h"

namespace nearfield::gpu {

// Reductions over a warp: one instruction from compute capability 8.0 on, five shuffles below it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ uint32_t WarpSum(uint32_t value) {
  return __reduce_add_sync(kFullWarp, value);
}
__device__ __forceinline__ uint32_t WarpMin(uint32_t value) {
  return __reduce_min_sync(kFullWarp, value);
}
__device__ __forceinline__ uint32_t WarpMax(uint32_t value) {
  return __reduce_max_sync(kFullWarp, value);
}
__device__ __forceinline__ uint32_t WarpOr(uint32_t value) {
  return __reduce_or_sync(kFullWarp, value);
}
#else
template <typename Operation>
__device__ __forceinline__ uint32_t WarpReduce(uint32_t value, const Operation& operation) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = operation(value, __shfl_xor_sync(kFullWarp, value, step));
  }
  return value;
}
__device__ __forceinline__ uint32_t WarpSum(uint32_t value) {
  return WarpReduce(value, [](uint32_t a, uint32_t b) { return a + b; });
}
__device__ __forceinline__ uint32_t WarpMin(uint32_t value) {
  return WarpReduce(value, [](uint32_t a, uint32_t b) { return min(a, b); });
}
__device__ __forceinline__ uint32_t WarpMax(uint32_t value) {
  return WarpReduce(value, [](uint32_t a, uint32_t b) { return max(a, b); });
}
__device__ __forceinline__ uint32_t WarpOr(uint32_t value) {
  return WarpReduce(value, [](uint32_t a, uint32_t b) { return a | b; });
}
#endif

// Returns the sum of the values of this lane and all lower ones.
__device__ __forceinline__ uint32_t WarpPrefixSum(uint32_t value) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    // The predicate is true if that lower lane exists.
    asm volatile(
        "{ .reg .pred p; .reg .u32 t;\n"
        "  shfl.sync.up.b32 t|p, %0, %1, 0, 0xffffffff;\n"
        "  @p add.u32 %0, %0, t; }"
        : "+r"(value)
        : "r"(step));
  }
  return value;
}

// Adds the lanes' counts to *count with one atomic operation. Returns the first of this lane's
// slots; the slots of a warp are contiguous and in the order of the lanes.
__device__ __forceinline__ uint32_t ReserveSlots(uint32_t* count, uint32_t mine) {
  const uint32_t through = WarpPrefixSum(mine);
  uint32_t base = 0;
  if (threadIdx.x % kWarp == kWarp - 1) base = atomicAdd(count, through);
  return __shfl_sync(kFullWarp, base, kWarp - 1) + through - mine;
}

// Returns how many of the items [0, count) have before(item). kLanes adjacent lanes, a power of
// two, ask for the same result, share the work and return the same.
template <uint32_t kLanes, typename Before>
__device__ __forceinline__ uint32_t RankByCount(uint32_t count, const Before& before) {
  uint32_t rank = 0;
  for (uint32_t item = threadIdx.x % kLanes; item < count; item += kLanes) {
    rank += before(item) ? 1 : 0;
  }
#pragma unroll
  for (uint32_t step = 1; step < kLanes; step *= 2) {
    rank += __shfl_xor_sync(kFullWarp, rank, static_cast<int>(step));
  }
  return rank;
}

// Finds the bin of the wanted-th item, if it is one of this thread's bins, which hold `sum` items;
// the bins of earlier threads hold `before`. items(i) returns the items in this thread's i-th bin.
// Calls found(i, before, items) with the items in all earlier bins and in this one. At most one
// thread of a block finds it. Lanes may diverge.
template <typename Items, typename Found>
__device__ __forceinline__ void FindKthBin(uint32_t before, uint32_t sum, uint32_t wanted,
                                           const Items& items, const Found& found) {
  if (before >= wanted || wanted > before + sum) return;
  uint32_t bin = 0;
  uint32_t count = items(bin);
  for (; before + count < wanted; count = items(++bin)) before += count;
  found(bin, before, count);
}

}  // namespace nearfield::gpu
