// Canonical scores of stored rows, computed by one warp.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/primitives/score_step.cuh"
#include "engine/gpu/kernels/primitives/warp_tree.cuh"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/score/score.h"

namespace nearfield::gpu {

// The query in shared memory: fp64, zero-padded, in QueryPosition order.
struct StagedQuery {
  const double* values = nullptr;
  double squared = 1.0;  // S(q, q); read for cosine only
  Metric metric = Metric::kDot;
};

// Writes the share of thread `thread` of `threads` in the staged query. A barrier must follow.
__device__ inline void StageQuery(const RowShape& shape, const float* query, double* staged,
                                  int thread, int threads) {
  for (int d = thread; d < shape.padded; d += threads) {
    staged[QueryPosition(shape, d)] = d < shape.dim ? static_cast<double>(query[d]) : 0.0;
  }
}

// Accumulates this lane's sums of kRows rows of the same shape. Loads of 8 / kRows blocks of 128
// dimensions of every row are in flight together.
template <typename Row, bool kL2, int kRows>
__device__ __forceinline__ void LaneSums(const char* const (&rows)[kRows], const RowShape& shape,
                                         const double* staged, double (&sums)[kRows]) {
  constexpr int kBlocks = 8 / kRows;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto* pairs = reinterpret_cast<const double2*>(staged) + lane;
  for (int block = 0; block < shape.full_blocks; block += kBlocks) {
    typename Row::Quad quads[kRows][kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (block + i >= shape.full_blocks) break;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        LoadStreaming(
            reinterpret_cast<const typename Row::Quad*>(rows[r]) + lane + (block + i) * kWarp,
            quads[r][i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (block + i >= shape.full_blocks) break;
      const double2 low = pairs[(block + i) * (kBlockDims / 2)];
      const double2 high = pairs[(block + i) * (kBlockDims / 2) + kWarp];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        double sum = sums[r];
        sum = ScoreStep<kL2>(low.x, Row::template ValueOf<0>(quads[r][i]), sum);
        sum = ScoreStep<kL2>(low.y, Row::template ValueOf<1>(quads[r][i]), sum);
        sum = ScoreStep<kL2>(high.x, Row::template ValueOf<2>(quads[r][i]), sum);
        sums[r] = ScoreStep<kL2>(high.y, Row::template ValueOf<3>(quads[r][i]), sum);
      }
    }
  }
  for (int word = 0; word < shape.tail_words; ++word) {
    const int position = shape.full_blocks * kBlockDims + word * kWarp + lane;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto element =
          __ldg(reinterpret_cast<const typename Row::Element*>(rows[r]) + position);
      sums[r] = ScoreStep<kL2>(staged[position], Row::Value(element), sums[r]);
    }
  }
}

// Returns, in lane l, the score of row l / (32 / kRows). All lanes call it with the same rows.
template <typename Row, int kRows>
__device__ __forceinline__ float WarpScores(const RowsView* const (&views)[kRows],
                                            const uint32_t (&slots)[kRows],
                                            const StagedQuery& query) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool l2 = query.metric == Metric::kL2;
  const char* rows[kRows];
  double sums[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) rows[r] = views[r]->row(slots[r]);
  if (l2) {
    LaneSums<Row, true>(rows, views[0]->shape, query.values, sums);
  } else {
    LaneSums<Row, false>(rows, views[0]->shape, query.values, sums);
  }
  const double sum = WarpTree(sums, lane);
  if (l2) return score::L2Score(sum);
  if (query.metric == Metric::kDot) return score::DotScore(sum);
  double row_squared = 1.0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (lane / (kWarp / kRows) == r) row_squared = *views[r]->norm(slots[r]);
  }
  return score::CosineScore(sum, query.squared, row_squared);
}

}  // namespace nearfield::gpu
