// What the kernels that keep a list of the best keys share: how the lists of a row's blocks become
// its answer. list_launch.cuh launches them.
//
// The blocks of a row leave their lists in the workspace, rank by rank: the first keys of all
// blocks, then the second ones, and so on. The last block of the row to arrive merges them. Few of
// the keys matter (of `blocks` lists of random scores, about k / blocks each), and rank by rank
// these are the first the merging block reads.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ROW_LISTS_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ROW_LISTS_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/row_reader.cuh"
#include "engine/gpu/kernels/select/score_types.cuh"
#include "engine/gpu/kernels/select/staged_list.cuh"

namespace nearfield::gpu {

inline constexpr int kListThreads = 256;
inline constexpr int kListWarps = kListThreads / 32;
// A thread of the merging block looks after one list.
inline constexpr int64_t kRowBlocksMax = kListThreads;

// Grid (batch, blocks a row).
struct ListRows {
  const void* scores = nullptr;
  int64_t stride = 0;
  uint32_t n = 0;
  uint32_t k = 0;
  void* values = nullptr;
  uint32_t* indices = nullptr;
  // Used only where a row has several blocks.
  uint64_t* lists = nullptr;    // [batch][k][blocks]
  uint32_t* tickets = nullptr;  // [batch]; zero between calls
};

template <typename Scores>
__device__ __forceinline__ const typename Scores::Raw* RowOf(const ListRows& rows) {
  return static_cast<const typename Scores::Raw*>(rows.scores) +
         static_cast<int64_t>(blockIdx.x) * rows.stride;
}

template <typename Scores>
__device__ __forceinline__ RowReader<Scores> ReaderOf(const ListRows& rows) {
  return RowReader<Scores>(RowOf<Scores>(rows), rows.n);
}

template <typename Scores>
__device__ __forceinline__ void WriteAnswer(const ListRows& rows, uint32_t rank, uint64_t key) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * rows.k + rank;
  static_cast<typename Scores::Raw*>(rows.values)[at] = Scores::FromValue(ScoreOf(KeyOrder(key)));
  rows.indices[at] = KeyIndex(key);
}

// Whether this block is the last of its row to come here. It then sees what all threads of the
// others wrote before they came (past L1: __ldcg), and the ticket is zero again.
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

// A key that at least k keys of the lists reach, 0 where there may be fewer; the same in all
// threads. Two are known: the last key of any list that is full; and, for any r, the m-th greatest
// of the lists' r-th keys where m * r >= k. r is twice a list's even share: of random scores about
// 2k keys then reach it.
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
  // Keys are unique, and 0 bounds nothing: where the needed-th is 0, no other has its rank.
  if (at_depth != kNoSelectKey && greater == needed - 1 && at_depth > best) best = at_depth;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const uint64_t other = __shfl_xor_sync(0xffffffffu, best, distance);
    if (other > best) best = other;
  }
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<unsigned long long*>(&bound), static_cast<unsigned long long>(best));
  }
  __syncthreads();
  return bound;
}

// Merges the lists of a row's blocks; afterwards `staged` holds the k best.
template <typename List>
__device__ __forceinline__ void MergeLists(const ListRows& rows, const uint64_t* lists,
                                           List& staged) {
  constexpr int kRanks = 8;  // read at once
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
    // Later keys of a list are lesser ones, and the threshold never falls.
    if (__syncthreads_or(any) == 0) break;
    staged.Add(keys, rows.k);
  }
  staged.Settle(rows.k);
}

// The end of every block: key_at(rank) is its rank-th best key, 0 behind the last, and may lie in
// the memory of `staged`. All threads call it; what key_at reads is visible to all.
template <typename Scores, typename List, typename KeyAt>
__device__ __forceinline__ void FinishRow(const ListRows& rows, List& staged, const KeyAt& key_at) {
  if (gridDim.y == 1) {
    for (uint32_t rank = threadIdx.x; rank < rows.k; rank += kListThreads) {
      WriteAnswer<Scores>(rows, rank, key_at(rank));
    }
    return;
  }
  uint64_t* const lists = rows.lists + static_cast<int64_t>(blockIdx.x) * rows.k * gridDim.y;
  for (uint32_t rank = threadIdx.x; rank < rows.k; rank += kListThreads) {
    lists[static_cast<int64_t>(rank) * gridDim.y + blockIdx.y] = key_at(rank);
  }
  if (!ArrivesLast(rows)) return;
  MergeLists(rows, lists, staged);
  for (uint32_t rank = threadIdx.x; rank < rows.k; rank += kListThreads) {
    WriteAnswer<Scores>(rows, rank, staged.At(rank));
  }
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ROW_LISTS_CUH_
