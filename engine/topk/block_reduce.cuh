// Reductions and prefix sums over the threads of a block. All threads call every function.
#pragma once

#include <cstdint>

#include "engine/topk/score_types.cuh"
#include "engine/topk/warp_primitives.cuh"

namespace nearfield::gpu {

// Range and sum of some scores. The ends are ordered bits. A NaN shows in the sum only.
struct ScoreSpread {
  uint32_t least = 0xffffffffu;
  uint32_t greatest = 0;
  float sum = 0;

  // Returns the spread of the scores score(j) with has(j) and counts(score). There may be none.
  // has(j) is false above some j.
  template <int kItems, typename Has, typename Score, typename Counts>
  __device__ static ScoreSpread Of(const Has& has, const Score& score, const Counts& counts) {
    float least = __builtin_huge_valf();
    float greatest = -__builtin_huge_valf();
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      if (!has(j)) break;
      const float one = score(j);
      if (!counts(one)) continue;
      least = fminf(least, one);
      greatest = fmaxf(greatest, one);
      sum += one;
    }
    return ScoreSpread{OrderOf(least), OrderOf(greatest), sum};
  }
  template <int kItems, typename Has, typename Score>
  __device__ static ScoreSpread Of(const Has& has, const Score& score) {
    return Of<kItems>(has, score, [](float) { return true; });
  }
};

inline constexpr int kWarpsMax = 32;  // warps in a block

struct BlockReduceShared {
  uint32_t sums[kWarpsMax];  // one for each warp
  uint32_t least[kWarpsMax];
  uint32_t greatest[kWarpsMax];
  float score_sums[kWarpsMax];
};

template <int kThreads>
class BlockReduce {
 public:
  static constexpr uint32_t kWarps = kThreads / kWarp;

  // Returns the sum of the values of all earlier threads. A barrier must precede the next call.
  __device__ static uint32_t PrefixSum(uint32_t value, BlockReduceShared& shared) {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t warp = threadIdx.x / kWarp;
    const uint32_t through = WarpPrefixSum(value);
    if (lane == kWarp - 1) shared.sums[warp] = through;
    __syncthreads();
    const uint32_t before = WarpSum(lane < warp ? shared.sums[lane] : 0);
    return before + through - value;
  }

  // Replaces both values with the minimum and the maximum of all. A barrier must precede the next
  // call.
  __device__ static void JoinEnds(uint32_t* least, uint32_t* greatest, BlockReduceShared& shared) {
    const uint32_t lane = threadIdx.x % kWarp;
    *least = WarpMin(*least);
    *greatest = WarpMax(*greatest);
    if (lane == 0) {
      shared.least[threadIdx.x / kWarp] = *least;
      shared.greatest[threadIdx.x / kWarp] = *greatest;
    }
    __syncthreads();
    *least = WarpMin(lane < kWarps ? shared.least[lane] : 0xffffffffu);
    *greatest = WarpMax(lane < kWarps ? shared.greatest[lane] : 0);
  }

  // Returns the spread of all threads' scores. A barrier must precede the next call.
  __device__ static ScoreSpread Join(ScoreSpread mine, BlockReduceShared& shared) {
    JoinWarp(&mine);
    const uint32_t lane = threadIdx.x % kWarp;
    if (lane == 0) {
      const uint32_t warp = threadIdx.x / kWarp;
      shared.least[warp] = mine.least;
      shared.greatest[warp] = mine.greatest;
      shared.score_sums[warp] = mine.sum;
    }
    __syncthreads();
    ScoreSpread all;
    if (lane < kWarps) {
      all = ScoreSpread{shared.least[lane], shared.greatest[lane], shared.score_sums[lane]};
    }
    JoinWarp(&all);
    return all;
  }

 private:
  __device__ static void JoinWarp(ScoreSpread* spread) {
    spread->least = WarpMin(spread->least);
    spread->greatest = WarpMax(spread->greatest);
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      spread->sum += __shfl_xor_sync(kFullWarp, spread->sum, step);
    }
  }
};

}  // namespace nearfield::gpu
