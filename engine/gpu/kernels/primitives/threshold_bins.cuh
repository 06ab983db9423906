// Finds a threshold close to the k-th best of many scores that k of them reach.
//
// Unlike ThresholdSearch, it visits scores in registers and stops after one round or two, so it
// needs no group of blocks; its result is at or below the k-th best score, not equal to it.
#pragma once

#include <cstdint>

#include "engine/cuda/warp_primitives.cuh"
#include "engine/score/order.h"
#include "engine/topk/block_reduce.cuh"

namespace nearfield::gpu {

struct ThresholdBins {
  static constexpr int kBits = 10;
  static constexpr uint32_t kBins = 1u << kBits;
  uint32_t counts[kBins];
  BlockReduceShared reduce;
  uint32_t bin;     // that has the k-th
  uint32_t wanted;  // the k-th is this one of the bin
  uint32_t items;   // of the bin
};

// Returns, as ordered bits, a score that at least k of the visited scores reach; the bits of -inf
// if there are fewer. for_each(visit) visits the ordered bits of this thread's scores, the same in
// each of two or three calls. Two rounds use 1,024 bins each. The second divides the bin of the
// k-th; it is left out if at most `spare` scores of that bin come after the k-th in their order. No
// other visited score lies between the result and the k-th: a lower threshold is equally valid.
// Requires: all threads of the block call; a barrier before `bins` is used again.
template <int kThreads, typename ForEach>
__device__ uint32_t KthGreatest(uint32_t k, ThresholdBins& bins, const ForEach& for_each,
                                uint32_t spare = 0) {
  using Reduce = BlockReduce<kThreads>;
  constexpr uint32_t kBinsOfThread = ThresholdBins::kBins / kThreads;
  const uint32_t none = score::OrderedBits(score::MinusInfinity());
  uint32_t least = 0xffffffffu;
  uint32_t greatest = 0;
  for_each([&](uint32_t order) {
    least = min(least, order);
    greatest = max(greatest, order);
  });
  Reduce::JoinEnds(&least, &greatest, bins.reduce);
  uint32_t wanted = k;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = threadIdx.x; i < ThresholdBins::kBins; i += kThreads) bins.counts[i] = 0;
    if (threadIdx.x == 0) bins.bin = ThresholdBins::kBins;
    __syncthreads();
    const int range_bits = greatest > least ? 32 - __clz(static_cast<int>(greatest - least)) : 0;
    const int shift = max(range_bits - ThresholdBins::kBits, 0);
    // Bin 0 has the largest scores.
    for_each([&](uint32_t order) {
      if (order >= least && order <= greatest) {
        atomicAdd(&bins.counts[(greatest - order) >> shift], 1u);
      }
    });
    __syncthreads();
    const uint32_t first = threadIdx.x * kBinsOfThread;
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kBinsOfThread; ++i) sum += bins.counts[first + i];
    FindKthBin(
        Reduce::PrefixSum(sum, bins.reduce), sum, wanted,
        [&](uint32_t i) { return bins.counts[first + i]; },
        [&](uint32_t i, uint32_t before, uint32_t items) {
          bins.bin = first + i;
          bins.wanted = wanted - before;
          bins.items = items;
        });
    __syncthreads();
    if (bins.bin == ThresholdBins::kBins) return none;
    wanted = bins.wanted;
    // The scores of the bin: [top - width + 1, top], clipped to the current range.
    const uint32_t top = greatest - (bins.bin << shift);
    const uint32_t width = 1u << shift;
    least = top - least < width ? least : top - width + 1;
    greatest = top;
    if (shift == 0 || bins.items <= wanted + spare) break;
    __syncthreads();
  }
  return max(least, none);
}

}  // namespace nearfield::gpu
