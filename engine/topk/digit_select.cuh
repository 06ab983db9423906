// Digit selection over 64-bit keys, most significant digit first: collects the keys that reach the
// window, sorts them and writes the answer.
#pragma once

#include <cub/block/block_merge_sort.cuh>

#include <cmath>
#include <cstdint>

#include "engine/topk/digit_select.h"
#include "engine/topk/digit_window.cuh"
#include "engine/topk/row_batches.cuh"
#include "engine/topk/row_group.cuh"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/score_types.cuh"
#include "engine/topk/warp_primitives.cuh"

namespace nearfield::gpu {

// Keys in flight per thread when a pass reads keys, 8 bytes each.
inline constexpr int kKeysUnroll = 4;

// Destination of appended keys, in shared or device memory. The counter is in shared memory.
struct KeySink {
  uint64_t* keys;
  uint32_t room;
  uint32_t* count;
};

struct KeyTest {
  uint64_t threshold;
  template <typename Batch>
  __device__ bool operator()(const Batch& batch, int i) const {
    return batch.Key(i) >= threshold;
  }
};

// Like KeyTest, with one comparison: for thresholds that all keys of one score reach, or none.
template <typename Score>
struct ScoreTest {
  Score bound;
  template <typename Batch>
  __device__ bool operator()(const Batch& batch, int i) const {
    return batch.Value(i) >= bound;
  }
};

// Appends the stripe's keys that pass the test, in no order. They are known to fit. The room is
// checked anyway, so that scores that change during the selection cannot cause a write out of
// bounds.
template <int kUnroll, typename Stripe, typename Test>
__device__ __forceinline__ void AppendIf(const Stripe& stripe, const Test& test,
                                         const KeySink& sink) {
  stripe.template ForEach<kUnroll>([&](const auto& batch) {
    uint32_t mine = 0;
    if (batch.valid()) {
#pragma unroll
      for (int i = 0; i < batch.kCount; ++i) mine += test(batch, i) ? 1 : 0;
    }
    if (__any_sync(kFullWarp, mine != 0) == 0) return;
    uint32_t at = ReserveSlots(sink.count, mine);
    if (mine == 0) return;
#pragma unroll
    for (int i = 0; i < batch.kCount; ++i) {
      if (!test(batch, i)) continue;
      if (at < sink.room) sink.keys[at] = batch.Key(i);
      ++at;
    }
  });
}

// Appends the stripe's keys >= threshold.
template <int kUnroll, typename Stripe>
__device__ __forceinline__ void AppendKeys(const Stripe& stripe, uint64_t threshold,
                                           const KeySink& sink) {
  if constexpr (Stripe::kHasScores) {
    using Scores = typename Stripe::Scores;
    const uint32_t order = KeyOrder(threshold);
    // Orders below the lowest belong to NaN, which passes no comparison. No key has an order above
    // the highest.
    if (static_cast<uint32_t>(threshold) == 0 && order != 0 && order <= Scores::kHighestOrder) {
      const typename Scores::Score bound = Scores::OfOrder(max(order, Scores::kLowestOrder));
      AppendIf<kUnroll>(stripe, ScoreTest<typename Scores::Score>{bound}, sink);
    } else {
      AppendIf<1>(stripe, KeyTest{threshold}, sink);
    }
  } else {
    AppendIf<kUnroll>(stripe, KeyTest{threshold}, sink);
  }
}

// Collects all keys of the stripe that reach the window in shared memory. Returns their number.
template <int kUnroll, typename Stripe>
__device__ __forceinline__ uint32_t CollectShared(const Stripe& stripe, const DigitBlock& block) {
  DigitShared& shared = block.shared;
  if (threadIdx.x == 0) shared.collected = 0;
  __syncthreads();
  AppendKeys<kUnroll>(stripe, block.window.base,
                      KeySink{shared.keys(), block.capacity, &shared.collected});
  __syncthreads();
  return min(shared.collected, block.capacity);
}

// Copies the group's keys that reach the window to `compact`; `mine` counts those of this block.
// Returns this block's stripe of all of them.
template <int kUnroll, typename Stripe>
__device__ __forceinline__ KeyStripe Compact(const Stripe& stripe, const OwnCounts& mine,
                                             uint64_t* compact, uint32_t room, DigitBlock& block) {
  DigitShared& shared = block.shared;
  uint32_t before = 0;
  uint32_t total = 0;
  DigitScan(shared.scan).ExclusiveSum(mine.above + mine.equal, before, total);
  if (threadIdx.x == 0) {
    shared.base = min(block.group.ReserveCompacted(total), room);
    shared.collected = 0;
  }
  __syncthreads();
  const uint32_t base = shared.base;
  AppendKeys<kUnroll>(stripe, block.window.base,
                      KeySink{compact + base, min(total, room - base), &shared.collected});
  block.group.Barrier();
  return KeyStripe(compact, min(block.window.candidates, room), block.group.rank(),
                   block.group.size());
}

// Moves the candidates of all blocks to the last block of a group of several. Returns their number
// there, and 0 in the other blocks.
__device__ inline uint32_t MergeCandidates(uint32_t count, uint64_t* candidates,
                                           DigitBlock& block) {
  DigitShared& shared = block.shared;
  if (threadIdx.x == 0) shared.base = block.group.ReserveCandidates(count);
  __syncthreads();
  const uint32_t base = shared.base;
  for (uint32_t i = threadIdx.x; i < count && base + i < block.capacity; i += kDigitThreads) {
    candidates[base + i] = shared.keys()[i];
  }
  const uint32_t total = min(block.group.CandidatesIfLast(&shared.collected), block.capacity);
  for (uint32_t i = threadIdx.x; i < total; i += kDigitThreads) {
    shared.keys()[i] = __ldcg(candidates + i);
  }
  __syncthreads();
  return total;
}

struct GreaterDigitKey {
  __device__ bool operator()(uint64_t a, uint64_t b) const { return a > b; }
};

template <int kItems>
__device__ __forceinline__ void MergeSortKeys(uint64_t* keys, uint32_t count) {
  using Sort = cub::BlockMergeSort<uint64_t, kDigitThreads, kItems>;
  static_assert(sizeof(typename Sort::TempStorage) <= (kItems * kDigitThreads + 2) * 8,
                "the sort runs in the memory of the keys");
  uint64_t mine[kItems];
  const uint32_t first = threadIdx.x * kItems;
#pragma unroll
  for (uint32_t i = 0; i < kItems; ++i) {
    mine[i] = first + i < count ? keys[first + i] : kNoSelectKey;
  }
  __syncthreads();
  Sort(*reinterpret_cast<typename Sort::TempStorage*>(keys)).Sort(mine, GreaterDigitKey());
  __syncthreads();
#pragma unroll
  for (uint32_t i = 0; i < kItems; ++i) keys[first + i] = mine[i];
  __syncthreads();
}

// Sorts shared.keys()[0, count), largest first. Requires: count <= the capacity, which is the size
// of a sort. The slots after the keys, up to the next size, are overwritten. Not inlined: the sorts
// are large, and the same for all scores.
__device__ __noinline__ inline void SortKeys(uint32_t count) {
  static_assert(kDigitCapacities.front().keys >= kDigitThreads, "room for the smallest sort");
  uint64_t* const keys = SharedOfBlock().keys();
  if (count <= kDigitThreads) {
    MergeSortKeys<1>(keys, count);
  } else if (count <= 2 * kDigitThreads) {
    MergeSortKeys<2>(keys, count);
  } else if (count <= 4 * kDigitThreads) {
    MergeSortKeys<4>(keys, count);
  } else if (count <= 8 * kDigitThreads) {
    MergeSortKeys<8>(keys, count);
  } else {
    MergeSortKeys<16>(keys, count);
  }
}

// Writes the answer of a row from its sorted keys.
template <typename Scores>
__device__ __forceinline__ void WriteRow(const ScoreRow<Scores>& row, const uint64_t* keys) {
  for (uint32_t rank = threadIdx.x; rank < row.k; rank += kDigitThreads) {
    row.results.Key(rank, keys[rank]);
  }
  row.Pad(kDigitThreads);
}

// Sorts the k best keys of one row, and more, to block.shared.keys(), with the blocks of its group.
// Returns true in the block that has them. The window initially holds all keys of the row. Narrows
// the window, collects the keys that reach it and sorts them.
template <int kUnroll, typename Stripe>
__device__ __forceinline__ bool SelectRow(const DigitSelectArgs& args, uint64_t row,
                                          const Stripe& stripe, DigitBlock& block) {
  // A ragged row may be shorter than the copy of its candidates would be.
  const uint32_t enough = block.window.candidates > args.compact_max
                              ? max(args.capacity, args.compact_max)
                              : args.capacity;
  const OwnCounts mine = NarrowWindow<kUnroll>(stripe, enough, block);
  uint32_t count;
  if (block.window.candidates <= args.capacity) {
    count = CollectShared<kUnroll>(stripe, block);
  } else {
    const KeyStripe keys = Compact<kUnroll>(stripe, mine, args.compact + row * args.compact_max,
                                            args.compact_max, block);
    NarrowWindow<kKeysUnroll>(keys, args.capacity, block);
    count = CollectShared<kKeysUnroll>(keys, block);
  }
  if (block.group.size() > 1) {
    count = MergeCandidates(count, args.candidates + row * args.capacity, block);
    if (count == 0) return false;
  }
  SortKeys(count);
  return true;
}

}  // namespace nearfield::gpu
