// Guesses a threshold from a sample of a row: an interpolation search over the sample's scores.
//
// The scores are counted in bins of equal width between the least and the greatest of them; where
// the bin of the wanted-th greatest holds too many, that bin is divided again. Every block of a
// group draws the same sample and finds the same threshold, so that none waits for another. Scores
// that this does not tell apart (ties, infinities, many magnitudes) are left to ThresholdSearch.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLE_GUESS_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLE_GUESS_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/block_reduce.cuh"
#include "engine/gpu/kernels/select/row_populations.cuh"
#include "engine/gpu/kernels/select/row_reader.cuh"
#include "engine/gpu/kernels/select/sample_target.h"
#include "engine/gpu/kernels/select/score_types.cuh"

namespace nearfield::gpu {

struct GuessShared {
  uint32_t bin;      // of the wanted-th greatest
  uint32_t above;    // scores in greater bins
  uint32_t reached;  // and in this one
};

// Shared: a SortShared with `guess`, whose bins are free. All threads call every function.
template <typename Source, typename Shared>
class SampleGuess {
 public:
  static constexpr int kThreads = Shared::kThreads;

  // A threshold that about target.wanted keys of the sample reach, and no more than
  // target.accepted; kNoSelectKey where it finds none. A barrier before the bins are used again.
  __device__ static uint64_t Find(const RowSample<Source, kThreads>& sample, SampleTarget target,
                                  Shared& shared) {
    Chunk chunk;
    Load(sample, 0, chunk);
    AskFor(sample, kChunkVectors);
    Clear(shared);
    const ScoreSpread spread =
        Reduce::Join(ScoreSpread::Of<kScores>([&](int j) { return chunk.has(j); },
                                              [&](int j) { return chunk.score(j); }),
                     shared.reduce);
    Window window = {ScoreOf(spread.least), ScoreOf(spread.greatest)};
    uint32_t above = 0;
    for (int round = 0; round < kRounds; ++round) {
      const float width = (window.high - window.low) * (1.0f / Shared::kBins);
      const float scale = __fdividef(1.0f, width);
      if (!(isfinite(scale) && scale > 0.0f)) return kNoSelectKey;
      if (round > 0) {
        Clear(shared);
        __syncthreads();
      }
      for (uint32_t first = 0;;) {
        Count(chunk, window, scale, round > 0, shared);
        first += kChunkVectors;
        if (first >= sample.vectors()) break;
        Load(sample, first, chunk);
        AskFor(sample, first + kChunkVectors);
      }
      __syncthreads();
      FindBin(shared, target.wanted - above);
      const GuessShared found = shared.guess;
      const float edge = window.low + static_cast<float>(found.bin) * width;
      if (above + found.reached <= target.accepted) {
        return static_cast<uint64_t>(OrderOf(edge)) << 32;
      }
      above += found.above;
      window = {edge, edge + width};
      if (above >= target.wanted) return kNoSelectKey;
      if (sample.vectors() > kChunkVectors) Load(sample, 0, chunk);
    }
    return kNoSelectKey;
  }

 private:
  static constexpr int kPerVector = ScoreVector<Source>::kCount;
  // Of a thread at a time: what it has registers for.
  static constexpr int kVectors = kThreads >= 512 ? 4 : 2;
  static constexpr int kScores = kVectors * kPerVector;
  static constexpr uint32_t kChunkVectors = kVectors * kThreads;
  static constexpr int kRounds = 2;
  using Reduce = BlockReduce<kThreads>;

  // A thread's part of some vectors of the sample.
  class Chunk {
   public:
    uint32_t vectors = 0;
    ScoreVector<Source> loaded[kVectors];

    __device__ bool has(int j) const { return static_cast<uint32_t>(j / kPerVector) < vectors; }
    __device__ float score(int j) const {
      return Source::Score(loaded[j / kPerVector].raw(j % kPerVector));
    }
  };

  struct Window {
    float low;
    float high;
  };

  __device__ static void Load(const RowSample<Source, kThreads>& sample, uint32_t first,
                              Chunk& chunk) {
    chunk.vectors = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint32_t number = first + threadIdx.x + static_cast<uint32_t>(i) * kThreads;
      if (number >= sample.vectors()) break;
      chunk.loaded[i] = sample.row.Load(sample.VectorOf(number));
      chunk.vectors = static_cast<uint32_t>(i) + 1;
    }
  }

  // Brings what Load will want to L2.
  __device__ static void AskFor(const RowSample<Source, kThreads>& sample, uint32_t first) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint32_t number = first + threadIdx.x + static_cast<uint32_t>(i) * kThreads;
      if (number >= sample.vectors()) break;
      asm volatile("prefetch.global.L2 [%0];"
                   :
                   : "l"(__cvta_generic_to_global(sample.row.Address(sample.VectorOf(number)))));
    }
  }

  __device__ static void Clear(Shared& shared) {
    auto* const bins = reinterpret_cast<uint4*>(shared.bins());
#pragma unroll
    for (uint32_t i = 0; i < Shared::kBinsOfThread / 4; ++i) {
      bins[i * kThreads + threadIdx.x] = uint4{};
    }
  }

  // Scores beyond the window are left out where it is a bin of the one before; at first they are
  // counted at its ends. A NaN falls in bin 0.
  __device__ static void Count(const Chunk& chunk, Window window, float scale, bool inside,
                               Shared& shared) {
#pragma unroll
    for (int j = 0; j < kScores; ++j) {
      if (!chunk.has(j)) break;
      const float score = chunk.score(j);
      if (inside && !(score >= window.low && score < window.high)) continue;
      const uint32_t bin = __float2uint_rz((score - window.low) * scale);
      atomicAdd(&shared.bins()[min(bin, Shared::kBins - 1)], 1u);
    }
  }

  // Thread t looks at the t-th stretch of bins from the greatest down.
  __device__ static void FindBin(Shared& shared, uint32_t wanted) {
    constexpr uint32_t kMine = Shared::kBinsOfThread;
    const uint32_t first = (kThreads - 1 - threadIdx.x) * kMine;
    const auto* const vectors = reinterpret_cast<const uint4*>(&shared.bins()[first]);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kMine / 4; ++i) {
      const uint4 four = vectors[i];
      sum += four.x + four.y + four.z + four.w;
    }
    if (threadIdx.x == 0) shared.guess = {0, 0, 0x7fffffffu};  // where there are fewer than wanted
    uint32_t greater = Reduce::PrefixSum(sum, shared.reduce);
    if (greater < wanted && wanted <= greater + sum) {
      uint32_t bin = first + kMine - 1;
      uint32_t count = shared.bins()[bin];
      for (; greater + count < wanted; count = shared.bins()[--bin]) greater += count;
      shared.guess = {bin, greater, greater + count};
    }
    __syncthreads();
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLE_GUESS_CUH_
