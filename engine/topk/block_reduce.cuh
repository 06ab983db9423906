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
};

// A spread that grows score by score.
class ScoreRange {
 public:
  __device__ void Add(float score) {
    least_ = fminf(least_, score);
    greatest_ = fmaxf(greatest_, score);
    sum_ += score;
  }
  __device__ ScoreSpread spread() const { return {OrderOf(least_), OrderOf(greatest_), sum_}; }

 private:
  float least_ = __builtin_huge_valf();
  float greatest_ = -__builtin_huge_valf();
  float sum_ = 0;
};

inline constexpr int kWarpsMax = 32;  // warps in a block

struct BlockReduceShared {
  uint32_t sums[kWarpsMax];  // one for each warp
  uint32_t least[kWarpsMax];
  uint32_t greatest[kWarpsMax];
  float score_sums[kWarpsMax];
};

// The threads that work together: all of the block.
struct WholeBlock {
  __device__ static void Sync() { __syncthreads(); }
};
// The kThreads threads with the same threadIdx.y, in a block of several such teams.
template <int kThreads>
struct TeamOfBlock {
  __device__ static void Sync() {
    asm volatile("bar.sync %0, %1;" : : "r"(threadIdx.y + 1), "n"(kThreads) : "memory");
  }
};

template <int kThreads, typename Team = WholeBlock>
class BlockReduce {
 public:
  static constexpr uint32_t kWarps = kThreads / kWarp;

  // Returns the sum of the values of all earlier threads. A barrier must precede the next call.
  __device__ static uint32_t PrefixSum(uint32_t value, BlockReduceShared& shared) {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t warp = threadIdx.x / kWarp;
    const uint32_t through = WarpPrefixSum(value);
    if (lane == kWarp - 1) shared.sums[warp] = through;
    Team::Sync();
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
    Team::Sync();
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
    Team::Sync();
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
