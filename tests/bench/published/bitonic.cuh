// Bitonic sorting networks over 64-bit keys in registers, for a warp or any group of threads that
// can exchange keys. The key at position p is in register p % kRegisters of thread p / kRegisters,
// so the short strides of the network need no shuffle.
//
// Each size of the sort begins with a mirrored step, which compares p with its mirror image in the
// block of that size. All comparisons then point the same way, and none needs a direction of its
// own.
#pragma once

#include <cstdint>

#include "engine/topk/warp.h"

namespace nearfield::gpu::published {

__device__ __forceinline__ uint64_t KeepOf(uint64_t mine, uint64_t other, bool keep_greater) {
  return (other > mine) == keep_greater ? other : mine;
}

// The threads of a warp, as a network uses them. All 32 call together.
struct WarpLanes {
  static constexpr int kThreads = kWarp;

  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x % kWarp); }

  // Compares each key with that of register r ^ flip, thread ^ mask, and keeps one of the two.
  template <int kRegisters>
  __device__ __forceinline__ void Step(uint64_t (&keys)[kRegisters], int mask, int flip,
                                       bool keep_greater) const {
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      const int mirrored = r ^ flip;
      if (mirrored < r) continue;
      const uint64_t first = __shfl_xor_sync(kFullWarp, keys[mirrored], mask);
      if (mirrored != r) {
        const uint64_t second = __shfl_xor_sync(kFullWarp, keys[r], mask);
        keys[mirrored] = KeepOf(keys[mirrored], second, keep_greater);
      }
      keys[r] = KeepOf(keys[r], first, keep_greater);
    }
  }
};

// Compares position p with p ^ mask; `half` is the highest bit of mask. The lower position keeps
// the greater key if kDescending, else the lesser.
template <bool kDescending, typename Lanes, int kRegisters>
__device__ __forceinline__ void NetworkStep(const Lanes& lanes, uint64_t (&keys)[kRegisters],
                                            int mask, int half) {
  if (mask >= kRegisters) {
    const bool is_lower = (lanes.thread() & (half / kRegisters)) == 0;
    lanes.Step(keys, mask / kRegisters, mask % kRegisters, is_lower == kDescending);
    return;
  }
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) {
    const int partner = r ^ mask;
    if (partner < r || partner >= kRegisters) continue;
    const uint64_t low = keys[r];
    const uint64_t high = keys[partner];
    const bool swaps = kDescending ? low < high : high < low;
    keys[r] = swaps ? high : low;
    keys[partner] = swaps ? low : high;
  }
}

template <bool kDescending, typename Lanes, int kRegisters>
__device__ __forceinline__ void BitonicSort(const Lanes& lanes, uint64_t (&keys)[kRegisters]) {
#pragma unroll
  for (int size = 2; size <= Lanes::kThreads * kRegisters; size *= 2) {
    NetworkStep<kDescending>(lanes, keys, size - 1, size / 2);
#pragma unroll
    for (int stride = size / 4; stride > 0; stride /= 2) {
      NetworkStep<kDescending>(lanes, keys, stride, stride);
    }
  }
}

// Merges an ascending tile into a descending list of the same length, keeping the larger half. The
// larger key at each position belongs to that half, and the resulting sequence is bitonic.
template <typename Lanes, int kRegisters>
__device__ __forceinline__ void MergeAscending(const Lanes& lanes, uint64_t (&list)[kRegisters],
                                               const uint64_t (&tile)[kRegisters]) {
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) list[r] = tile[r] > list[r] ? tile[r] : list[r];
#pragma unroll
  for (int stride = Lanes::kThreads * kRegisters / 2; stride > 0; stride /= 2) {
    NetworkStep<true>(lanes, list, stride, stride);
  }
}

}  // namespace nearfield::gpu::published
