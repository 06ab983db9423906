// Digit selection over 64-bit keys, most significant digit first: narrows the window that holds the
// k-th largest key.
//
// The window holds the keys [base, base + span]. A pass counts the keys in the window by their next
// digit, which is the offset from the base shifted down to digit_bits bits. It then moves the
// window to the digit that holds the k-th. Keys are unique, so the window ends at the latest at a
// single key, which exactly k keys reach. Usually few enough keys reach it after one pass.
#pragma once

#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "engine/topk/digit_select.h"
#include "engine/topk/row_group.cuh"

namespace nearfield::gpu {

using DigitScan = cub::BlockScan<uint32_t, kDigitThreads, cub::BLOCK_SCAN_WARP_SCANS>;

struct FoundBin {
  uint32_t bin;
  uint32_t greater;  // keys in greater bins
  uint32_t equal;    // keys in this bin
};

// State of a block, at the start of its dynamic shared memory; the keys follow.
struct alignas(16) DigitShared {
  uint32_t bins[kDigitBinsMax];
  DigitScan::TempStorage scan;
  FoundBin found;
  uint32_t collected;
  uint32_t base;

  __device__ uint64_t* keys() { return reinterpret_cast<uint64_t*>(this + 1); }
};
static_assert(sizeof(DigitShared) <= kDigitSharedFixedBytes, "the launch reserves this much");

// The dynamic shared memory of every digit selection kernel.
extern __shared__ __align__(16) unsigned char digit_shared_bytes[];
__device__ __forceinline__ DigitShared& SharedOfBlock() {
  return *reinterpret_cast<DigitShared*>(digit_shared_bytes);
}

struct DigitWindow {
  uint64_t base = 0;
  uint64_t span = ~uint64_t{0};
  uint32_t above = 0;       // keys above the window: selected, fewer than k
  uint32_t candidates = 0;  // keys >= base: at least k

  // Returns the number of low bits of an offset that are not part of the next digit.
  __device__ int Shift(int digit_bits) const {
    const int bits = 64 - __clzll(static_cast<long long>(span));
    return bits > digit_bits ? bits - digit_bits : 0;
  }

  __device__ void EnterBin(const FoundBin& found, int shift) {
    const uint64_t offset = uint64_t{found.bin} << shift;
    base += offset;
    span = min(span - offset, (uint64_t{1} << shift) - 1);
    above += found.greater;
    candidates = above + found.equal;
  }
};

// Thread t reads bins 4 * quad to 4 * quad + 3. Earlier threads have larger bins.
__device__ __forceinline__ uint32_t QuadOfThread() { return kDigitThreads - 1 - threadIdx.x; }

__device__ __forceinline__ uint4 OwnQuad(const DigitShared& shared) {
  return reinterpret_cast<const uint4*>(shared.bins)[QuadOfThread()];
}

// Returns the bin of the needed-th largest key, in all threads. Unlike FindKthBin, it reads no
// bins: the counts of a group of blocks are already in registers. Requires: 1 <= needed <= keys
// counted. All earlier reads of shared.bins have completed when it returns.
__device__ inline FoundBin FindBin(DigitShared& shared, const uint4& quad, uint32_t needed) {
  const uint32_t counts[4] = {quad.w, quad.z, quad.y, quad.x};
  uint32_t greater = 0;
  DigitScan(shared.scan).ExclusiveSum(quad.w + quad.z + quad.y + quad.x, greater);
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if (greater < needed && needed <= greater + counts[i]) {
      shared.found = FoundBin{4 * QuadOfThread() + 3 - i, greater, counts[i]};
    }
    greater += counts[i];
  }
  __syncthreads();
  return shared.found;
}

__device__ inline void ClearBins(DigitShared& shared) {
  reinterpret_cast<uint4*>(shared.bins)[threadIdx.x] = uint4{};
  __syncthreads();
}

// Counts the stripe's keys in the window by their next digit, into shared.bins.
template <int kUnroll, typename Stripe>
__device__ __forceinline__ void CountDigit(const Stripe& stripe, const DigitWindow& window,
                                           int shift, DigitShared& shared) {
  ClearBins(shared);
  const uint64_t base = window.base;
  const uint64_t span = window.span;
  if (span == ~uint64_t{0} && shift >= 32) {  // the first pass: all keys, and the score decides
    const int order_shift = shift - 32;
    stripe.template ForEach<kUnroll>([&](const auto& batch) {
      if (!batch.valid()) return;
#pragma unroll
      for (int i = 0; i < batch.kCount; ++i) {
        atomicAdd(&shared.bins[batch.Order(i) >> order_shift], 1u);
      }
    });
  } else {
    stripe.template ForEach<kUnroll>([&](const auto& batch) {
      if (!batch.valid()) return;
#pragma unroll
      for (int i = 0; i < batch.kCount; ++i) {
        const uint64_t offset = batch.Key(i) - base;  // a smaller key wraps, beyond the span
        if (offset <= span) atomicAdd(&shared.bins[offset >> shift], 1u);
      }
    });
  }
  __syncthreads();
}

// One thread's share of its block's keys that reach the window.
struct OwnCounts {
  uint32_t above = 0;
  uint32_t equal = 0;

  __device__ void EnterBin(const FoundBin& found, const uint4& quad) {
    const uint32_t counts[4] = {quad.x, quad.y, quad.z, quad.w};
    equal = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t bin = 4 * QuadOfThread() + i;
      if (bin > found.bin) above += counts[i];
      if (bin == found.bin) equal = counts[i];
    }
  }
};

// A block's view of its row; the same in all threads.
struct DigitBlock {
  DigitShared& shared;
  RowGroup& group;
  uint32_t k;
  uint32_t capacity;
  int digit_bits;
  DigitWindow window;
};

// Makes passes over the stripe until at most `enough` keys reach the window. Requires: enough >= k.
template <int kUnroll, typename Stripe>
__device__ __forceinline__ OwnCounts NarrowWindow(const Stripe& stripe, uint32_t enough,
                                                  DigitBlock& block) {
  OwnCounts mine;
  // Exactly k keys reach a window of a single key, so the second condition never ends the loop
  // alone, unless the scores change during the selection.
  while (block.window.candidates > enough && block.window.span != 0) {
    const int shift = block.window.Shift(block.digit_bits);
    CountDigit<kUnroll>(stripe, block.window, shift, block.shared);
    const uint4 own = OwnQuad(block.shared);
    const FoundBin found = FindBin(block.shared, block.group.SumBins(QuadOfThread(), own),
                                   block.k - block.window.above);
    mine.EnterBin(found, own);
    block.window.EnterBin(found, shift);
  }
  return mine;
}

}  // namespace nearfield::gpu
