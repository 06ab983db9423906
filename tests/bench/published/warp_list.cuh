// The best keys that a warp has seen, descending, in its registers; and the merge of a block's
// warps.
#pragma once

#include <cstdint>

#include "engine/topk/score_types.cuh"
#include "engine/topk/warp.h"
#include "tests/bench/published/bitonic.cuh"
#include "tests/bench/published/row_lists.cuh"

namespace nearfield::gpu::published {

// All 32 lanes call every method together.
template <int kRegisters>
class WarpList {
 public:
  static constexpr int kCapacity = kWarp * kRegisters;

  __device__ __forceinline__ WarpList() {
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) keys_[r] = kNoSelectKey;
  }

  // Merges the best keys of a tile, in any order, into the list. Overwrites the tile.
  __device__ __forceinline__ void MergeTile(uint64_t (&tile)[kRegisters]) {
    BitonicSort<false>(WarpLanes(), tile);
    MergeAscending(WarpLanes(), keys_, tile);
  }

  // Returns the key at a position, which is the same in all lanes.
  __device__ __forceinline__ uint64_t At(uint32_t position) const {
    // Halves the list by the bits of the position, with masks: a conditional would become an index,
    // and the list would move to local memory.
    uint64_t left[kRegisters];
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) left[r] = keys_[r];
#pragma unroll
    for (int width = kRegisters / 2; width > 0; width /= 2) {
      const uint64_t upper = (position & static_cast<uint32_t>(width)) != 0 ? ~uint64_t{0} : 0;
#pragma unroll
      for (int r = 0; r < kRegisters / 2; ++r) {
        if (r < width) left[r] = (left[r + width] & upper) | (left[r] & ~upper);
      }
    }
    return __shfl_sync(kFullWarp, left[0], static_cast<int>(position / kRegisters));
  }

  // In memory a list is stored register by register, so that neither Store nor MergeStored has bank
  // conflicts.
  __device__ __forceinline__ void Store(uint64_t* list) const {
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) list[r * kWarp + threadIdx.x % kWarp] = keys_[r];
  }
  __device__ static uint64_t Stored(const uint64_t* list, uint32_t position) {
    return list[position % kRegisters * kWarp + position / kRegisters];
  }
  __device__ __forceinline__ void MergeStored(const uint64_t* list) {
    uint64_t ascending[kRegisters];
#pragma unroll
    for (int r = 0; r < kRegisters; ++r) {
      ascending[r] = list[(kRegisters - r) * kWarp - 1 - threadIdx.x % kWarp];
    }
    MergeAscending(WarpLanes(), keys_, ascending);
  }

 private:
  uint64_t keys_[kRegisters];
};

// Merges the lists of the block's warps, pair by pair. Afterwards the best keys are stored at
// `lists`, which has room for kListWarps / 2 lists and may be in use until the call. All threads
// call it.
template <int kRegisters>
__device__ __forceinline__ void MergeWarpLists(WarpList<kRegisters>& list, uint64_t* lists) {
  constexpr int kCapacity = WarpList<kRegisters>::kCapacity;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();
#pragma unroll 1
  for (int half = kListWarps / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half) list.Store(lists + (warp - half) * kCapacity);
    __syncthreads();
    if (warp < half) list.MergeStored(lists + warp * kCapacity);
    __syncthreads();
  }
  if (warp == 0) list.Store(lists);
  __syncthreads();
}

}  // namespace nearfield::gpu::published
