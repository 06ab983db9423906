// The keys of a row that a threshold search counts: all of them, or an even sample.
#pragma once

#include <cstdint>

#include "engine/topk/row_reader.cuh"
#include "engine/topk/warp.h"

namespace nearfield::gpu {

// One block's share of the work on a row.
struct RowShare {
  uint32_t rank = 0;
  uint32_t size = 1;
};

// Vectors loaded before the first is processed.
inline constexpr int kVisitUnroll = 4;

// Calls visit(key) for every element of kVisitUnroll vectors, with kNoSelectKey if there is none.
// vector_of(i) returns the i-th vector, or any number >= `end` for none.
template <typename Source, typename VectorOf, typename Visit>
__device__ __forceinline__ void VisitVectors(const RowReader<Source>& row, uint32_t end,
                                             const VectorOf& vector_of, const Visit& visit) {
  ScoreVector<Source> loaded[kVisitUnroll];
#pragma unroll
  for (int i = 0; i < kVisitUnroll; ++i) loaded[i] = row.Load(min(vector_of(i), end - 1));
#pragma unroll
  for (int i = 0; i < kVisitUnroll; ++i) {
    const uint32_t vector = vector_of(i);
    if (!__any_sync(kFullWarp, vector < end)) return;
#pragma unroll
    for (int place = 0; place < ScoreVector<Source>::kCount; ++place) {
      visit(vector < end ? Source::Key(loaded[i].raw(place), row.IndexOf(vector, place))
                         : kNoSelectKey);
    }
  }
}

// All keys of the row that belong to this block.
template <typename Source, int kThreads>
struct WholeRow {
  const RowReader<Source>& row;
  RowShare share;

  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    const uint32_t step = kThreads * share.size;
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t end = row.vectors();
    for (uint32_t base = share.rank * kThreads + threadIdx.x - lane; base < end;
         base += kVisitUnroll * step) {
      VisitVectors(
          row, end, [=](int i) { return base + lane + static_cast<uint32_t>(i) * step; }, visit);
    }
    if (share.rank == 0 && threadIdx.x < kWarp) {
      const bool valid = lane < row.edges();
      const uint32_t index = valid ? row.EdgeIndex(lane) : 0;
      visit(valid ? Source::Key(row.At(index), index) : kNoSelectKey);
    }
  }
};

// An even sample of 2^pairs_log2 pairs of vectors, in runs of 2^run_log2 neighboring vectors. Each
// run comes from one of as many equal stretches of the row, at its own pseudorandom offset, so that
// no order or period of the scores aligns with the sample. Requires: 2^pairs_log2 <= vectors / 2,
// 1 <= run_log2 <= pairs_log2.
template <typename Source, int kThreads>
struct RowSample {
  const RowReader<Source>& row;
  RowShare share;
  int pairs_log2 = 0;
  int run_log2 = 1;

  __device__ uint32_t vectors() const { return 2u << pairs_log2; }
  __device__ float SampledFraction() const {
    return static_cast<float>(ScoreVector<Source>::kCount * vectors()) /
           static_cast<float>(row.size());
  }

  // Returns the index in the row of vector `number` of the sample, number < vectors().
  __device__ uint32_t VectorOf(uint32_t number) const {
    // (ordinal + jitter) / runs as a fraction of 2^32.
    const int runs_log2 = pairs_log2 + 1 - run_log2;
    const uint32_t ordinal = number >> run_log2;
    const uint32_t fraction =
        ordinal << (32 - runs_log2) | ((ordinal + 1) * 0x9e3779b1u) >> runs_log2;
    const uint32_t run = __umulhi(fraction, row.vectors() >> run_log2);
    return (run << run_log2) + (number & ((1u << run_log2) - 1));
  }

  template <typename Visit>
  __device__ void ForEach(const Visit& visit) const {
    const uint32_t step = kThreads * share.size;
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t end = row.vectors();
    for (uint32_t base = share.rank * kThreads + threadIdx.x - lane; base < vectors();
         base += kVisitUnroll * step) {
      VisitVectors(
          row, end,
          [=, this](int i) {
            const uint32_t number = base + lane + static_cast<uint32_t>(i) * step;
            return number < vectors() ? VectorOf(number) : end;
          },
          visit);
    }
  }
};

}  // namespace nearfield::gpu
