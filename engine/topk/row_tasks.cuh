// Shares the blocks of one launch among ragged rows by their lengths.
#pragma once

#include <cstdint>

#include "engine/topk/block_reduce.cuh"
#include "engine/topk/sampled_threshold.h"
#include "engine/topk/score_rows.cuh"

namespace nearfield::gpu {

// The work of one block: the rank-th of `size` blocks that share a row.
struct RowTask {
  uint32_t place;  // of the row
  uint32_t group;  // of blocks that share a row; < kRowGroupsMax
  uint32_t rank;
  uint32_t size;  // 0: no work
};

// Returns the task of this block, which every block computes for itself from the bounds of all
// rows. Each row gets one block, and its share of the others, rounded down; no more blocks than its
// length justifies. All threads call it. A barrier must precede the next use of `reduce`.
// Requires: 1 <= batch <= gridDim.x <= kTaskBlocksMax.
template <int kThreads>
__device__ __noinline__ RowTask TaskOfBlock(const ScoreRows& rows, uint32_t batch,
                                            uint32_t scores_per_block, BlockReduceShared& reduce) {
  constexpr uint32_t kRows = kTaskBlocksMax / kThreads;
  constexpr uint32_t kScoresPerUnit = 1024;  // keeps products below 2^32
  __shared__ RowTask task;
  __shared__ uint32_t total;
  uint32_t lengths[kRows];
  uint32_t mine = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i) {
    const uint32_t row = threadIdx.x * kRows + i;
    const RowBounds bounds =
        row < batch ? BoundsOf(rows.row_begin, rows.row_end, rows.n, row) : RowBounds{0, 0};
    lengths[i] = bounds.size;
    mine += row < batch ? lengths[i] / kScoresPerUnit + 1 : 0;
  }
  if (threadIdx.x == 0) task.size = 0;
  const uint32_t before = BlockReduce<kThreads>::PrefixSum(mine, reduce);
  if (threadIdx.x == kThreads - 1) total = before + mine;
  __syncthreads();
  // In one sum: blocks in the low half, groups of several blocks in the high half.
  uint32_t sizes[kRows];
  uint32_t sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i) {
    const uint32_t row = threadIdx.x * kRows + i;
    const uint32_t share = (gridDim.x - batch) * (lengths[i] / kScoresPerUnit + 1) / total;
    const uint32_t worth = lengths[i] / scores_per_block + 1;
    sizes[i] = row < batch ? min(1 + share, worth) : 0;
    sum += sizes[i] + (sizes[i] > 1 ? 1u << 16 : 0);
  }
  uint32_t at = BlockReduce<kThreads>::PrefixSum(sum, reduce);
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i) {
    const uint32_t first = at & 0xffffu;
    const uint32_t group = at >> 16;
    if (first <= blockIdx.x && blockIdx.x < first + sizes[i]) {
      const uint32_t rank = blockIdx.x - first;
      // A row without a group keeps its first block.
      const uint32_t size = group < kRowGroupsMax ? sizes[i] : rank == 0 ? 1 : 0;
      task = {threadIdx.x * kRows + i, group < kRowGroupsMax ? group : 0, rank, size};
    }
    at += sizes[i] + (sizes[i] > 1 ? 1u << 16 : 0);
  }
  __syncthreads();
  return task;
}

}  // namespace nearfield::gpu
