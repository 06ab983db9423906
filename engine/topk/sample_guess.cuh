// Guesses a threshold from a sample of a row, by an interpolation search over the sample's scores.
//
// The scores are counted in bins of equal width between their minimum and maximum. If the bin of
// the wanted-th largest score holds too many, that bin is divided again. Equal scores are
// distinguished by their indices. Every block of a group draws the same sample and finds the same
// threshold, so no block waits for another. Samples that this search cannot resolve (infinities,
// many magnitudes) go to ThresholdSearch, which is exact but needs more rounds: bins of equal width
// resolve usual scores in one.
#pragma once

#include <cstdint>

#include "engine/cuda/warp_primitives.cuh"
#include "engine/topk/block_reduce.cuh"
#include "engine/topk/row_populations.cuh"
#include "engine/topk/row_reader.cuh"
#include "engine/topk/sample_target.h"
#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {

struct GuessShared {
  uint32_t bin;      // bin of the wanted-th largest score
  uint32_t above;    // scores in greater bins
  uint32_t reached;  // scores in this bin and in greater ones
};

// Shared: a SortShared with a member `guess`; its bins are not in use. All threads call every
// function.
template <typename Source, typename Shared>
class SampleGuess {
 public:
  static constexpr int kThreads = Shared::kThreads;

  // Returns a threshold that about target.wanted keys of the sample reach, and at most
  // target.accepted; kNoSelectKey if it finds none. A barrier must precede the next use of the
  // bins.
  __device__ static uint64_t Find(const RowSample<Source, kThreads>& sample, SampleTarget target,
                                  Shared& shared) {
    Chunk chunk;
    Load(sample, 0, chunk);
    Prefetch(sample, 1);
    Clear(shared);
    Window window = {-__builtin_huge_valf(), __builtin_huge_valf()};
    uint32_t above = 0;
    uint32_t inside = sample.vectors() * kPerVector;
    for (int round = 0; round < kRounds; ++round) {
      if (!NarrowWindow(chunk, &window, shared)) return kNoSelectKey;
      if (window.low == window.high) {
        return TieKey(window.low, target.wanted - above, inside, sample.row.size());
      }
      const float width = (window.high - window.low) * (1.0f / Shared::kBins);
      const float scale = __frcp_rn(width);
      if (!(isfinite(scale) && scale > 0.0f)) return kNoSelectKey;
      for (uint32_t number = 0;;) {
        Count(chunk, window, scale, round > 0, shared);
        if (++number >= ChunksOf(sample)) break;
        Load(sample, number, chunk);
        Prefetch(sample, number + 1);
      }
      __syncthreads();
      FindGuess(shared, target.wanted - above);
      const GuessShared found = shared.guess;
      const float edge = window.low + static_cast<float>(found.bin) * width;
      if (above + found.reached <= target.accepted) {
        return static_cast<uint64_t>(Source::OrderOfReal(edge)) << 32;
      }
      above += found.above;
      inside = found.reached - found.above;
      window = {edge, edge + width};
      if (above >= target.wanted || inside == 0) return kNoSelectKey;
      Clear(shared);
      if (ChunksOf(sample) > 1) Load(sample, 0, chunk);
    }
    return kNoSelectKey;
  }

 private:
  static constexpr int kPerVector = ScoreVector<Source>::kCount;
  // Vectors per thread in a chunk: as many as the registers hold.
  static constexpr int kVectors = kThreads == 512 ? 4 : 2;
  static constexpr int kScores = kVectors * kPerVector;
  static constexpr uint32_t kChunkVectors = kVectors * kThreads;
  static constexpr int kRounds = 4;
  using Reduce = BlockReduce<kThreads>;

  // One thread's share of some vectors of the sample.
  class Chunk {
   public:
    uint32_t vectors = 0;
    ScoreVector<Source> loaded[kVectors];

    __device__ bool has(int j) const { return static_cast<uint32_t>(j / kPerVector) < vectors; }
    __device__ float score(int j) const {
      return Source::Real(loaded[j / kPerVector].raw(j % kPerVector));
    }
  };

  struct Window {
    float low;
    float high;
  };

  // Returns the number of chunks. Both operands are powers of two.
  __device__ static uint32_t ChunksOf(const RowSample<Source, kThreads>& sample) {
    return max(sample.vectors() / kChunkVectors, 1u);
  }
  // Returns the number in the sample of this thread's i-th vector of a chunk; it may be past the
  // end. Each chunk has runs from all over the row, so that the first chunk represents all of
  // them.
  __device__ static uint32_t VectorIndexOf(const RowSample<Source, kThreads>& sample,
                                           uint32_t chunk, int i) {
    const uint32_t place = threadIdx.x + static_cast<uint32_t>(i) * kThreads;
    const uint32_t in_run = place & ((1u << sample.run_log2) - 1);
    return (((place >> sample.run_log2) * ChunksOf(sample) + chunk) << sample.run_log2) + in_run;
  }

  __device__ static void Load(const RowSample<Source, kThreads>& sample, uint32_t number,
                              Chunk& chunk) {
    chunk.vectors = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint32_t vector = VectorIndexOf(sample, number, i);
      if (vector >= sample.vectors()) break;
      chunk.loaded[i] = sample.row.Load(sample.VectorOf(vector));
      chunk.vectors = static_cast<uint32_t>(i) + 1;
    }
  }

  // Narrows the window to the chunk's scores inside it. Returns false if there is none, or an
  // infinite one.
  __device__ static bool NarrowWindow(const Chunk& chunk, Window* window, Shared& shared) {
    const ScoreSpread spread = Reduce::Join(
        ScoreSpread::Of<kScores>(
            [&](int j) { return chunk.has(j); }, [&](int j) { return chunk.score(j); },
            [&](float score) { return score >= window->low && score <= window->high; }),
        shared.reduce);
    *window = {ScoreOf(spread.least), ScoreOf(spread.greatest)};
    return isfinite(window->low) && isfinite(window->high);
  }

  // Returns a key among `ties` equal scores of the sample. They are assumed to lie evenly in the
  // row; the best have the smallest indices.
  __device__ static uint64_t TieKey(float score, uint32_t wanted, uint32_t ties, uint32_t n) {
    const float share = static_cast<float>(wanted) / static_cast<float>(ties);
    const auto index = static_cast<uint32_t>(fminf(share, 1.0f) * static_cast<float>(n - 1));
    return KeyOf(Source::OrderOfReal(score), min(index, n - 1));
  }

  // Prefetches the vectors that Load will read, to L2.
  __device__ static void Prefetch(const RowSample<Source, kThreads>& sample, uint32_t number) {
    if (number >= ChunksOf(sample)) return;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      asm volatile("prefetch.global.L2 [%0];"
                   :
                   : "l"(__cvta_generic_to_global(
                       sample.row.Address(sample.VectorOf(VectorIndexOf(sample, number, i))))));
    }
  }

  __device__ static void Clear(Shared& shared) {
    auto* const bins = reinterpret_cast<uint4*>(shared.bins());
#pragma unroll
    for (uint32_t i = 0; i < Shared::kBinsOfThread / 4; ++i) {
      bins[i * kThreads + threadIdx.x] = uint4{};
    }
  }

  // Counts the chunk's scores. In later rounds the window is a bin of the round before, and scores
  // outside it are skipped. In the first round, scores of other chunks outside it are counted in
  // the bins at its ends. A NaN falls in bin 0.
  __device__ static void Count(const Chunk& chunk, Window window, float scale, bool inside,
                               Shared& shared) {
#pragma unroll
    for (int j = 0; j < kScores; ++j) {
      if (!chunk.has(j)) break;
      const float score = chunk.score(j);
      if (inside && !(score >= window.low && score <= window.high)) continue;
      const uint32_t bin = __float2uint_rz((score - window.low) * scale);
      atomicAdd(&shared.bins()[min(bin, Shared::kBins - 1)], 1u);
    }
  }

  // Finds the bin of the wanted-th score. Thread t reads the t-th stretch of bins, from the largest
  // down.
  __device__ static void FindGuess(Shared& shared, uint32_t wanted) {
    constexpr uint32_t kMine = Shared::kBinsOfThread;
    const uint32_t first = (kThreads - 1 - threadIdx.x) * kMine;
    const auto* const vectors = reinterpret_cast<const uint4*>(&shared.bins()[first]);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < kMine / 4; ++i) {
      const uint4 four = vectors[i];
      sum += four.x + four.y + four.z + four.w;
    }
    if (threadIdx.x == 0) shared.guess = {0, 0, 0x7fffffffu};  // if there are fewer than `wanted`
    const uint32_t last = first + kMine - 1;
    FindKthBin(
        Reduce::PrefixSum(sum, shared.reduce), sum, wanted,
        [&](uint32_t i) { return shared.bins()[last - i]; },
        [&](uint32_t i, uint32_t above, uint32_t count) {
          shared.guess = {last - i, above, above + count};
        });
    __syncthreads();
  }
};

}  // namespace nearfield::gpu
