// Merges the lists of best keys of a row's blocks into its answer. Shared by the list kernels,
// which list_launch.cuh launches.
//
// The blocks of a row store their lists in the workspace rank by rank: the first keys of all
// blocks, then the second keys, and so on. The last block of the row to arrive merges them. Few of
// the keys matter (with random scores, about k / blocks of each list), and in this order they are
// the first that the merging block reads.
#pragma once

#include <cstdint>

#include "engine/topk/row_reader.cuh"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/score_types.cuh"
#include "engine/topk/warp.h"
#include "tests/bench/published/staged_list.cuh"

namespace nearfield::gpu::published {

inline constexpr int kListThreads = 256;
inline constexpr int kListWarps = kListThreads / kWarp;
// Each thread of the merging block handles one list.
inline constexpr int64_t kRowBlocksMax = kListThreads;

// Arguments of a list kernel. Grid (batch, blocks per row).
struct ListRows : ScoreRows {
  // Used only if a row has several blocks.
  uint64_t* lists = nullptr;    // [batch][k][blocks]
  uint32_t* tickets = nullptr;  // [batch]; zero between calls
};

template <typename Scores>
__device__ __forceinline__ RowReader<Scores> ReaderOf(const ListRows& rows) {
  const ScoreRow<Scores> row = RowAt<Scores>(rows, blockIdx.x);
  return RowReader<Scores>(row.scores, row.n);
}

// Writes the answer of the block's row, whose rank-th best key is key_at(rank).
template <typename Scores, typename KeyAt>
__device__ __forceinline__ void WriteAnswer(const ListRows& rows, const KeyAt& key_at) {
  const ScoreRow<Scores> row = RowAt<Scores>(rows, blockIdx.x);
  for (uint32_t rank = threadIdx.x; rank < row.k; rank += kListThreads) {
    row.results.Key(rank, key_at(rank));
  }
  row.Pad(kListThreads);
}

// Returns true if this block is the last of its row to call. It then sees all earlier writes of the
// other blocks if it bypasses L1 (__ldcg), and the ticket is zero again.
__device__ __forceinline__ bool ArrivesLast(const ListRows& rows) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicInc(&rows.tickets[blockIdx.x], gridDim.y - 1) == gridDim.y - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

// Returns a key that at least k keys of the lists reach, or 0 if there may be fewer than k; the
// same in all threads. Two such keys are known: the last key of any full list; and, for any r, the
// m-th largest of the r-th keys of the lists if m * r >= k. r is twice a list's even share, so
// about 2k random scores reach the key.
template <typename List>
__device__ __forceinline__ uint64_t BoundOfLists(const uint64_t* lists, uint32_t k, List& staged) {
  __shared__ uint64_t bound;
  const uint32_t blocks = gridDim.y;
  const uint32_t share = (k + blocks - 1) / blocks;
  const uint32_t depth = min(k, 2 * share);
  const uint32_t needed = (k + depth - 1) / depth;  // <= blocks, as depth >= share
  uint64_t at_depth = kNoSelectKey;
  uint64_t best = kNoSelectKey;
  if (threadIdx.x < blocks) {
    at_depth = __ldcg(lists + static_cast<int64_t>(depth - 1) * blocks + threadIdx.x);
    best = __ldcg(lists + static_cast<int64_t>(k - 1) * blocks + threadIdx.x);
  }
  uint64_t* const all = staged.scratch();
  all[threadIdx.x] = at_depth;
  if (threadIdx.x == 0) bound = 0;
  __syncthreads();
  uint32_t greater = 0;
#pragma unroll 8
  for (uint32_t i = 0; i < blocks; ++i) greater += all[i] > at_depth ? 1u : 0u;
  // Keys are unique, and 0 bounds nothing: if the needed-th is 0, no other key has its rank.
  if (at_depth != kNoSelectKey && greater == needed - 1 && at_depth > best) best = at_depth;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint64_t other = __shfl_xor_sync(kFullWarp, best, distance);
    if (other > best) best = other;
  }
  if (threadIdx.x % kWarp == 0) {
    atomicMax(reinterpret_cast<unsigned long long*>(&bound), static_cast<unsigned long long>(best));
  }
  __syncthreads();
  return bound;
}

// Merges the lists of a row's blocks. Afterwards `staged` holds the k best keys.
template <typename List>
__device__ __forceinline__ void MergeLists(const ListRows& rows, const uint64_t* lists,
                                           List& staged) {
  constexpr int kRanks = 8;  // read together
  const uint32_t blocks = gridDim.y;
  const uint64_t bound = BoundOfLists(lists, rows.k, staged);
  staged.Restart(bound == 0 ? 0 : bound - 1);
  for (uint32_t first = 0; first < rows.k; first += kRanks) {
    uint64_t keys[kRanks];
    bool any = false;
#pragma unroll
    for (uint32_t i = 0; i < kRanks; ++i) {
      const bool is_there = threadIdx.x < blocks && first + i < rows.k;
      const int64_t at = static_cast<int64_t>(first + i) * blocks + threadIdx.x;
      keys[i] = is_there ? __ldcg(lists + at) : kNoSelectKey;
    }
#pragma unroll
    for (int i = 0; i < kRanks; ++i) any |= keys[i] > staged.threshold();
    // Later keys of a list are smaller, and the threshold never falls.
    if (__syncthreads_or(any) == 0) break;
    staged.Add(keys, rows.k);
  }
  staged.MergeStaged(rows.k);
}

// Finishes a block. key_at(rank) returns its rank-th best key, or 0 after the last, and may read
// the memory of `staged`. All threads call it; all of them must see the data that key_at reads.
template <typename Scores, typename List, typename KeyAt>
__device__ __forceinline__ void FinishRow(const ListRows& rows, List& staged, const KeyAt& key_at) {
  if (gridDim.y == 1) {
    WriteAnswer<Scores>(rows, key_at);
    return;
  }
  uint64_t* const lists = rows.lists + static_cast<int64_t>(blockIdx.x) * rows.k * gridDim.y;
  for (uint32_t rank = threadIdx.x; rank < rows.k; rank += kListThreads) {
    lists[static_cast<int64_t>(rank) * gridDim.y + blockIdx.y] = key_at(rank);
  }
  if (!ArrivesLast(rows)) return;
  MergeLists(rows, lists, staged);
  WriteAnswer<Scores>(rows, [&](uint32_t rank) { return staged.At(rank); });
}

}  // namespace nearfield::gpu::published
