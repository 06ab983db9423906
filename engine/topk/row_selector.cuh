// Selects the k best of one row with one block or a group of blocks: sample, threshold, one pass,
// sort.
#pragma once

#include <cstdint>

#include "engine/topk/block_group.cuh"
#include "engine/topk/bucket_sort.cuh"
#include "engine/topk/key_collector.cuh"
#include "engine/topk/row_populations.cuh"
#include "engine/topk/sample_guess.cuh"
#include "engine/topk/sample_target.h"
#include "engine/topk/selector_shape.h"
#include "engine/topk/threshold_search.cuh"

namespace nearfield::gpu {

// Space for the bins, the sorted keys, and the ring that a row streams through first. A late ring
// overlaps the bins; another fills while they give the threshold.
template <uint32_t kBins, uint32_t kSorted, typename Ring, bool kLateRing>
struct RingSpace {
  alignas(16) uint32_t bin_counts[kBins];
  union {
    Ring ring;
    uint64_t in_order[kSorted];
  };

  __device__ uint32_t* bins() { return bin_counts; }
  __device__ uint64_t* sorted() { return in_order; }
};
template <uint32_t kBins, uint32_t kSorted, typename Ring>
struct RingSpace<kBins, kSorted, Ring, true> {
  struct Sort {
    alignas(16) uint32_t bin_counts[kBins];
    uint64_t in_order[kSorted];
  };
  union {
    Ring ring;
    Sort sort;
  };

  __device__ uint32_t* bins() { return sort.bin_counts; }
  __device__ uint64_t* sorted() { return sort.in_order; }
};

template <SelectorShape kShape>
using RingSpaceOf =
    RingSpace<1u << kShape.bin_bits, kShape.merges ? 1 : kShape.k_max + kBucketKeysMax,
              RowRing<kShape.threads, kShape.vectors, kShape.stages>, kShape.late_ring>;

// Shared memory of a block.
template <SelectorShape kShape>
struct RowShared
    : SortShared<kShape.threads, kShape.capacity, kShape.bin_bits, RingSpaceOf<kShape>> {
  using Ring = RowRing<kShape.threads, kShape.vectors, kShape.stages>;
  static constexpr bool kMerges = kShape.merges;

  SearchShared search;
  GuessShared guess;
  uint32_t queued;  // keys of this block that reached the threshold
  uint32_t base;    // offset of this block's keys among the group's
};

template <typename Source, SelectorShape kShape>
class RowSelector {
 public:
  using Shared = RowShared<kShape>;

  // Counts of a selection, in the group's leader; zero in the other blocks.
  struct Selected {
    uint32_t kept = 0;        // results: min(k, keys present)
    uint32_t candidates = 0;  // keys sorted to find them
  };

  // Selects the k best of a row. The leader passes each to `emit`, as BucketSort does. plan:
  // PlanSample of the row. candidates: [kCapacity] of the group if it has several blocks, which
  // requires kGrouped. All threads of all blocks of the group call it.
  template <typename Emit>
  __device__ static Selected Select(const RowReader<Source>& row, uint32_t k, SamplePlan plan,
                                    BlockGroup& group, uint64_t* candidates, Shared& shared,
                                    Emit emit) {
    RowShare share;
    if (kGrouped) share = ShareOf(group);
    Collector collector(row, share, shared.ring);
    if (!kLateRing) collector.Begin();
    uint32_t total = 0;
    for (int attempt = plan.way == SampleWay::kWholeRow ? kGuesses : 0;; ++attempt) {
      uint64_t threshold = 1;
      if (attempt < kGuesses) {
        threshold = Guess(row, k, plan, attempt, group, shared);
      } else {
        const WholeRow<Source, kThreads> whole = {row, share};
        threshold = Search::Find(whole, {k, kCapacity}, group, shared);
      }
      if (kLateRing) collector.Begin();
      total = Gather(collector, threshold, group, candidates, shared);
      // A threshold from a sample is a guess; the count is the proof. A threshold found over all
      // keys needs none.
      const bool enough = total >= k || threshold == 1;
      if (attempt >= kGuesses || (total <= kCapacity && enough)) break;
      if (total > kCapacity) attempt = kGuesses - 1;  // a lower guess will not help
      if (!kLateRing) collector.Begin();
    }
    if (kGrouped && !group.leads()) return {};
    if (kGrouped && group.size() > 1) {
      for (uint32_t i = threadIdx.x; i < total; i += kThreads) {
        shared.keys[i] = __ldcg(&candidates[i]);
      }
      __syncthreads();
    }
    BucketSort<Source, Shared>::Sort(shared, total, k, Source::BitsOf(row.size()), emit);
    return {min(k, total), total};
  }

 private:
  static constexpr int kThreads = kShape.threads;
  static constexpr bool kGrouped = kShape.grouped;
  static constexpr bool kLateRing = kShape.late_ring;
  static constexpr uint32_t kCapacity = Shared::kKeys;
  using Search = ThresholdSearch<kThreads, Shared>;
  using Collector = KeyCollector<Source, kThreads, typename Shared::Ring, kGrouped>;

  __device__ static RowShare ShareOf(const BlockGroup& group) {
    return {static_cast<uint32_t>(group.rank()), static_cast<uint32_t>(group.size())};
  }

  static constexpr int kGuesses = 2;

  // Returns a threshold from a sample; 1, which every key reaches, if the plan needs no sample. The
  // second attempt aims lower.
  __device__ static uint64_t Guess(const RowReader<Source>& row, uint32_t k, SamplePlan plan,
                                   int attempt, BlockGroup& group, Shared& shared) {
    RowSample<Source, kThreads> sample = {row, {}, plan.pairs_log2, plan.run_log2};
    SampleTarget target = TargetOf(k, sample.SampledFraction(), kCapacity,
                                   RowReader<Source>::kPerVector << plan.run_log2);
    if (attempt > 0) target.wanted = min(2 * target.wanted, target.accepted);
    if (plan.way == SampleWay::kOwnSample) {
      // Another step over these few keys costs less than keeping more of the row.
      target.accepted = min(target.accepted, target.wanted + target.wanted / 8);
      const uint64_t guess = SampleGuess<Source, Shared>::Find(sample, target, shared);
      if (guess != kNoSelectKey) return guess;
      __syncthreads();
      BlockGroup alone;
      return Search::Find(sample, target, alone, shared);
    }
    if (plan.way == SampleWay::kSharedSample) {
      if (kGrouped) sample.share = ShareOf(group);
      return Search::Find(sample, target, group, shared);
    }
    return 1;
  }

  // Collects the keys that reach the threshold, and returns their number. At most kCapacity are
  // kept: in shared.keys of a single block, in `candidates` of a group.
  __device__ static uint32_t Gather(Collector& collector, uint64_t threshold, BlockGroup& group,
                                    uint64_t* candidates, Shared& shared) {
    if (threadIdx.x == 0) shared.queued = 0;
    __syncthreads();
    collector.Collect(threshold, {shared.keys, &shared.queued, kCapacity});
    __syncthreads();
    const uint32_t queued = shared.queued;
    if (!kGrouped || group.size() == 1) {
      __syncthreads();
      return queued;
    }
    return group.GatherKeys<kThreads>(shared.keys, queued, kCapacity, candidates, &shared.base);
  }
};

}  // namespace nearfield::gpu
