// Computes canonical scores of rows that are given by their global index.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/primitives/warp_score.cuh"

namespace nearfield::gpu {

// Scores rows canonically, by all warps of the block. One lane calls done(i, row_index, score) for
// each i < count, where row_index = row_index_at(i). With at most one row per warp, a warp scores
// one row; otherwise four at a time, so that their loads overlap.
template <typename Row, int kWarps, typename RowIndexAt, typename Done>
__device__ __forceinline__ void ScoreRows(const CodedCorpus& corpus, const StagedQuery& query,
                                          uint32_t count, const RowIndexAt& row_index_at,
                                          const Done& done) {
  const uint32_t warp = threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto score_some = [&](auto rows_at_once) {
    constexpr int kRows = decltype(rows_at_once)::value;
    for (uint32_t first = warp * kRows; first < count; first += kWarps * kRows) {
      const RowsView* views[kRows];
      uint32_t slots[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const uint32_t row_index = row_index_at(min(first + static_cast<uint32_t>(r), count - 1));
        const CodedGeneration& generation = corpus.Of(row_index);
        views[r] = &generation.rows;
        slots[r] = row_index - generation.rows_begin;
      }
      // Lane l receives the score of row l / (32 / kRows).
      const float score = WarpScores<Row, kRows>(views, slots, query);
      const uint32_t mine = first + static_cast<uint32_t>(lane / (kWarp / kRows));
      if (lane % (kWarp / kRows) == 0 && mine < count) done(mine, row_index_at(mine), score);
    }
  };
  if (count <= kWarps) {
    score_some(std::integral_constant<int, 1>());
  } else {
    score_some(std::integral_constant<int, 4>());
  }
}

}  // namespace nearfield::gpu
