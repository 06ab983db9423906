// The refinement after a stage of a batch scan: raises thresholds and shortens queues; after the
// last stage it computes the answers.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_refine_terms.cuh"
#include "engine/gpu/kernels/batch/batch_refine_ties.cuh"
#include "engine/gpu/kernels/primitives/code_products.cuh"
#include "engine/gpu/kernels/primitives/score_rows.cuh"
#include "engine/gpu/kernels/primitives/threshold_bins.cuh"
#include "engine/score/order.h"

namespace nearfield::gpu {

// Refines the queue of one query, by one block. kTerms: the queries have row terms.
template <typename Row, int kThreads, bool kMerges, uint32_t kKeys, bool kTerms>
class Refinement {
 public:
  using Final = RefineFinal<kThreads, kMerges, kKeys>;
  using Shared = RefineShared<kKeys>;

  __device__ Refinement(const BatchArgs& args, Shared& shared, Final& final, double* staged)
      : args_(args),
        corpus_(*args.corpus_in_memory),
        shared_(shared),
        final_(final),
        state_(args.state[blockIdx.x]),
        queue_(args.queues + static_cast<int64_t>(blockIdx.x) * args.capacity),
        query_{staged, state_.squared, args.metric},
        final_scores_(args, corpus_),
        k_(static_cast<uint32_t>(args.k[blockIdx.x])),
        has_second_(args.source == BatchSource::kCodes &&
                    args.corpus.generations[0].codes.has_second()) {
    const int dimension = args.rotation.dimension;
    StageQuery(args.corpus.generations[0].rows.shape,
               args.vectors + static_cast<int64_t>(blockIdx.x) * dimension, staged,
               static_cast<int>(threadIdx.x), kThreads);
    // Both codes of the query, for Finish.
    auto* const codes = reinterpret_cast<uint4*>(staged + RowShapeOf(dimension).padded);
    const int vectors = args.code_stride / 16;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * args.code_stride;
    for (int i = static_cast<int>(threadIdx.x); i < vectors; i += kThreads) {
      codes[i] = reinterpret_cast<const uint4*>(args.first + at)[i];
      codes[vectors + i] = reinterpret_cast<const uint4*>(args.second + at)[i];
    }
    codes_ = {codes, codes + vectors};
    __syncthreads();
  }

  // Replaces the bounds of the entries [begin, end) by bounds of final scores.
  __device__ void TakeTerms(uint32_t begin, uint32_t end) {
    VisitQueue(begin, end, [&](uint32_t i, const QueueEntry& entry) {
      if (entry.x == kNoRowIndex) return;
      queue_[i].y = __float_as_uint(final_scores_.Upper(entry.x, __uint_as_float(entry.y)));
    });
    __syncthreads();
  }

  // Scores the k rows with the largest bounds, or bounds their scores by second codes, and returns
  // the k-th best score as ordered bits: k rows of the queue are known to reach it. -inf if the
  // queue has fewer rows.
  __device__ uint32_t RaiseThreshold(uint32_t count) {
    // Queue indexes and ordered bits, in the space of the keys, which Finish adds later.
    auto* const list = reinterpret_cast<uint32_t*>(final_.keys);
    uint32_t* const scores = list + kKeys;
    const uint32_t none = score::OrderedBits(score::MinusInfinity());
    const auto visit_bounds = [&](auto visit) {
      VisitQueue(0, count, [&](uint32_t, const QueueEntry& entry) {
        if (entry.x != kNoRowIndex) visit(OrderOf(entry));
      });
    };
    const uint32_t of_bounds = KthGreatest<kThreads>(k_, shared_.bins, visit_bounds, k_ / 16 + 1);
    if (threadIdx.x == 0) shared_.listed = shared_.scored = 0;
    __syncthreads();
    if (of_bounds == none) return none;
    // Any k rows with these bounds prove a threshold, so ties need no order.
    VisitQueue(0, count, [&](uint32_t i, const QueueEntry& entry) {
      if (entry.x == kNoRowIndex || OrderOf(entry) < of_bounds) return;
      if ((entry.x & kScoredBit) != 0) {
        const uint32_t at = atomicAdd(&shared_.scored, 1u);
        if (at < kKeys) scores[at] = OrderOf(entry);
      } else {
        const uint32_t at = atomicAdd(&shared_.listed, 1u);
        if (at < kKeys) list[at] = i;
      }
    });
    __syncthreads();
    const auto add = [&](uint32_t order) {
      const uint32_t at = atomicAdd(&shared_.scored, 1u);
      if (at < kKeys) scores[at] = order;
    };
    const uint32_t listed = min(shared_.listed, kKeys);
    if (has_second_) {
      BoundList(list, listed, [&](uint32_t, const bound::ScoreRange& range) {
        add(score::OrderedBits(range.lower));
      });
    } else {
      ScoreList(list, listed, add);
    }
    __syncthreads();
    const uint32_t scored = min(shared_.scored, kKeys);
    return KthGreatest<kThreads>(k_, shared_.bins, [&](auto visit) {
      for (uint32_t i = threadIdx.x; i < scored; i += kThreads) visit(scores[i]);
    });
  }

  // Drops the entries that do not reach the threshold; returns how many remain.
  __device__ uint32_t Shorten(uint32_t count, uint32_t threshold) {
    const float reach = score::ScoreFromOrderedBits(threshold);
    uint32_t kept = 0;
    for (uint32_t begin = 0; begin < count; begin += kAtOnce * kThreads) {
      QueueEntry entries[kAtOnce];
      uint32_t keeps = 0;  // one bit per entry
#pragma unroll
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const uint32_t i = begin + j * kThreads + threadIdx.x;
        entries[j] = i < count ? queue_[i] : QueueEntry{kNoRowIndex, 0};
      }
#pragma unroll
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const bool reaches = !(__uint_as_float(entries[j].y) < reach);
        keeps |= entries[j].x != kNoRowIndex && reaches ? 1u << j : 0u;
      }
      const auto mine = static_cast<uint32_t>(__popc(keeps));
      __syncthreads();  // all threads have read before any writes
      const uint32_t before = BlockReduce<kThreads>::PrefixSum(mine, shared_.bins.reduce);
      uint32_t at = kept + before;
#pragma unroll
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        if ((keeps >> j & 1) != 0) queue_[at++] = entries[j];
      }
      if (threadIdx.x == kThreads - 1) shared_.kept = before + mine;
      __syncthreads();
      kept += shared_.kept;
    }
    return kept;
  }

  // Scores all rows that may reach the threshold and writes the answer.
  __device__ void Finish(uint32_t count, uint32_t threshold) {
    if (has_second_) threshold = BoundQueue(count, threshold);
    const float reach = score::ScoreFromOrderedBits(threshold);
    uint32_t finals = 0;
    uint32_t size = count;  // entries that are listed together
    for (uint32_t begin = 0; begin < count;) {
      if (threadIdx.x == 0) {
        shared_.finals = finals;
        shared_.listed = 0;
        shared_.scored = 0;
      }
      __syncthreads();
      const uint32_t end = begin + min(count - begin, size);
      VisitQueue(begin, end, [&](uint32_t i, const QueueEntry& entry) {
        if (entry.x == kNoRowIndex || __uint_as_float(entry.y) < reach) return;
        if ((entry.x & kScoredBit) != 0) {
          AddFinal(entry.x & ~kScoredBit, OrderOf(entry), threshold);
        } else {
          const uint32_t at = atomicAdd(&shared_.listed, 1u);
          if (at < Shared::kListMax) shared_.list[at] = i;
        }
      });
      __syncthreads();
      const uint32_t listed = shared_.listed;
      __syncthreads();
      if (listed > Shared::kListMax) {  // no room: again, with fewer entries
        size = max(Shared::kListMax, (end - begin) / (listed / Shared::kListMax + 1));
        continue;
      }
      begin = end;
      if (args_.source == BatchSource::kCodes && !has_second_) {
        PruneList(listed, reach);
      } else {
        TakeList(listed);
      }
      __syncthreads();
      const uint32_t left = shared_.scored;
      if (threadIdx.x == 0) state_.scored += left;
      ScoreRows<Row, kWarps>(
          corpus_, query_, left, [&](uint32_t i) { return queue_[shared_.left[i]].x; },
          [&](uint32_t, uint32_t row_index, float score) {
            AddFinal(row_index, score::OrderedBits(final_scores_.Of(row_index, score)), threshold);
          });
      __syncthreads();
      finals = shared_.finals;
      __syncthreads();
    }
    uint32_t keys = min(finals, args_.keys_pitch);
    bool overflow = finals > kKeys;
    if (!overflow) {
      uint64_t* const to = args_.keys + static_cast<int64_t>(blockIdx.x) * args_.keys_pitch;
      final_.Sort(finals, keys, to);
      __syncthreads();
      KthTies<Final> ties(corpus_, k_, shared_, final_);
      if (ties.Misses(to, finals, keys)) {
        finals = ties.KeepFirst(finals);
        keys = min(finals, args_.keys_pitch);
        final_.Sort(finals, keys, to);
        __syncthreads();
        overflow = ties.Misses(to, finals, keys);
      }
    }
    if (threadIdx.x == 0) Report(keys, overflow);
  }

  __device__ void Report(uint32_t keys, bool overflow) const {
    args_.outcomes[blockIdx.x] =
        BatchOutcome{state_.scored, overflow ? 1u : 0u, overflow ? 0u : keys};
  }

 private:
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr uint32_t kAtOnce = 8;  // entries that a thread loads before it uses the first

  // Calls visit(i, entry) for this thread's entries of [begin, end), and some that hold no row.
  template <typename Visit>
  __device__ void VisitQueue(uint32_t begin, uint32_t end, const Visit& visit) const {
    for (uint32_t first = begin + threadIdx.x; first < end; first += kAtOnce * kThreads) {
      QueueEntry entries[kAtOnce];
#pragma unroll
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        const uint32_t i = first + j * kThreads;
        entries[j] = i < end ? queue_[i] : QueueEntry{kNoRowIndex, 0};
      }
#pragma unroll
      for (uint32_t j = 0; j < kAtOnce; ++j) visit(first + j * kThreads, entries[j]);
    }
  }

  __device__ static uint32_t OrderOf(const QueueEntry& entry) {
    return score::OrderedBits(__uint_as_float(entry.y));
  }

  // Scores the listed entries canonically and stores the scores in the queue.
  template <typename Done>
  __device__ void ScoreList(const uint32_t* list, uint32_t listed, const Done& done) {
    if (threadIdx.x == 0) state_.scored += listed;
    ScoreRows<Row, kWarps>(
        corpus_, query_, listed, [&](uint32_t i) { return queue_[list[i]].x; },
        [&](uint32_t i, uint32_t row_index, float canonical) {
          const float score = final_scores_.Of(row_index, canonical);
          queue_[list[i]] = QueueEntry{row_index | kScoredBit, __float_as_uint(score)};
          done(score::OrderedBits(score));
        });
  }

  // Copies the list of entries to the pruned list.
  __device__ void TakeList(uint32_t listed) {
    for (uint32_t i = threadIdx.x; i < listed; i += kThreads) shared_.left[i] = shared_.list[i];
    if (threadIdx.x == 0) shared_.scored = listed;
  }

  // Calls done(place, bounds_of(generation, slot)) for each listed entry, in one lane. All lanes of
  // a warp call bounds_of; eight lanes process one entry.
  template <typename BoundsOf, typename Done>
  __device__ void VisitList(const uint32_t* list, uint32_t listed, const BoundsOf& bounds_of,
                            const Done& done) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t group = static_cast<uint32_t>(lane) / kGroupLanes;
    for (uint32_t base = threadIdx.x / kWarp * kGroupRows; base < listed;
         base += kWarps * kGroupRows) {
      const uint32_t place = list[min(base + group, listed - 1)];
      const uint32_t row_index = queue_[place].x;
      const CodedGeneration& generation = corpus_.Of(row_index);
      const auto bounds = bounds_of(generation, row_index - generation.rows_begin);
      if (lane % kGroupLanes == 0 && base + group < listed) done(place, bounds);
    }
  }

  // Adds the listed entries that reach the threshold with both codes, too, to the pruned list.
  __device__ void PruneList(uint32_t listed, float reach) {
    VisitList(
        shared_.list, listed,
        [&](const CodedGeneration& generation, uint32_t slot) {
          const bound::RowBound bound = *generation.codes.bound(slot);
          const RowSums products = ProductsOfRow(generation.codes, slot, codes_);
          const float upper = bound::UpperScore(
              bound, state_.both, bound::CodeProduct(state_.both, products.first, products.second));
          return final_scores_.Upper(generation.rows_begin + slot, upper);
        },
        [&](uint32_t place, float upper) {
          if (!(upper < reach)) shared_.left[atomicAdd(&shared_.scored, 1u)] = place;
        });
  }

  // Calls done(place, range) for each listed entry with bounds from both codes of its row.
  template <typename Done>
  __device__ void BoundList(const uint32_t* list, uint32_t listed, const Done& done) const {
    VisitList(
        list, listed,
        [&](const CodedGeneration& generation, uint32_t slot) {
          return final_scores_.Range(generation.rows_begin + slot,
                                     RangeOfRow(generation, slot, codes_, state_.both));
        },
        done);
  }

  // Replaces the bounds of the entries that may reach the threshold by bounds from both codes of
  // their rows. Returns the threshold that these prove, or the given one if it is greater.
  __device__ uint32_t BoundQueue(uint32_t count, uint32_t threshold) {
    auto* const lowers = reinterpret_cast<uint32_t*>(final_.keys);  // free until the keys are added
    constexpr uint32_t kLowersMax = 2 * kKeys;
    const float reach = score::ScoreFromOrderedBits(threshold);
    if (threadIdx.x == 0) shared_.finals = 0;
    for (uint32_t begin = 0; begin < count; begin += Shared::kListMax) {
      if (threadIdx.x == 0) shared_.listed = 0;
      __syncthreads();
      VisitQueue(begin, min(count, begin + Shared::kListMax),
                 [&](uint32_t i, const QueueEntry& entry) {
                   if (entry.x == kNoRowIndex || __uint_as_float(entry.y) < reach) return;
                   shared_.list[atomicAdd(&shared_.listed, 1u)] = i;
                 });
      __syncthreads();
      BoundList(shared_.list, shared_.listed, [&](uint32_t place, const bound::ScoreRange& range) {
        queue_[place].y = __float_as_uint(range.upper);
        const uint32_t at = atomicAdd(&shared_.finals, 1u);
        if (at < kLowersMax) lowers[at] = score::OrderedBits(range.lower);
      });
      __syncthreads();
    }
    const uint32_t lowers_count = min(shared_.finals, kLowersMax);
    const uint32_t proven = KthGreatest<kThreads>(k_, shared_.bins, [&](auto visit) {
      for (uint32_t i = threadIdx.x; i < lowers_count; i += kThreads) visit(lowers[i]);
    });
    __syncthreads();
    return max(threshold, proven);
  }

  __device__ void AddFinal(uint32_t row_index, uint32_t order, uint32_t threshold) {
    if (order < threshold) return;
    const uint32_t at = atomicAdd(&shared_.finals, 1u);
    if (at >= kKeys) return;
    const CodedGeneration& generation = corpus_.Of(row_index);
    const uint32_t rank = *generation.rows.rank(row_index - generation.rows_begin);
    final_.keys[at] =
        (uint64_t{order} << 32) | static_cast<uint32_t>(~(generation.rows_begin + rank));
  }

  const BatchArgs& args_;
  const CodedCorpus& corpus_;
  Shared& shared_;
  Final& final_;
  BatchQuery& state_;
  QueueEntry* const queue_;
  const StagedQuery query_;
  const FinalScores<kTerms> final_scores_;
  const uint32_t k_;
  const bool has_second_;  // the rows have second codes
  SharedCodes codes_;
};

// Raises a query's threshold and shortens its queue, or answers the query.
// Grid (queries), block 128, 256 or 512. Reads the queue at least four times (8 B per entry, from
// L2), a code for each entry that may reach the last threshold, and a row for each entry that is
// scored. Requires RefineSharedBytes of dynamic shared memory.
// Steps: 1 the k best bounds, 2 their canonical scores, 3 the k-th of these is the threshold,
// 4 drop the entries below it; after the last stage: 5 bound the remaining entries with both codes
// of the query, 6 canonical scores, 7 sort. Row terms: before step 1, bounds of new entries become
// bounds of final scores; all scores and bounds after it are final ones. If rows have second codes,
// steps 2 and 5 bound the scores with all codes instead, and step 5 raises the threshold again, so
// that step 6 reads hardly more than k rows. Source: engine/DESIGN.md, "Certified bound".
template <typename Row, int kThreads, bool kMerges, uint32_t kKeys, bool kTerms>
__global__ void __launch_bounds__(kThreads, RefineBlocksOfSm(kThreads))
    BatchRefineKernel(const __grid_constant__ BatchArgs args, const BatchStage stage) {
  extern __shared__ __align__(16) unsigned char dynamic_bytes[];
  __shared__ RefineShared<kKeys> shared;
  using Final = RefineFinal<kThreads, kMerges, kKeys>;
  auto& final = *reinterpret_cast<Final*>(dynamic_bytes);
  Refinement<Row, kThreads, kMerges, kKeys, kTerms> refinement(
      args, shared, final, reinterpret_cast<double*>(dynamic_bytes + sizeof(Final)));
  BatchQuery& state = args.state[blockIdx.x];
  const bool whole = stage.done_step == 0;
  const uint32_t count = whole ? stage.tiles * kBatchTileRows : state.listed;
  const bool overflow = state.overflow != 0 || count > args.capacity;
  __syncthreads();  // all threads have read the state
  if (overflow) {
    if (threadIdx.x != 0) return;
    state.overflow = 1;  // later stages collect no rows for this query
    if (stage.last) refinement.Report(0, true);
    return;
  }
  if constexpr (kTerms) refinement.TakeTerms(state.kept, count);
  const uint32_t threshold = refinement.RaiseThreshold(count);
  __syncthreads();
  if (stage.last) {
    refinement.Finish(count, threshold);
    return;
  }
  const uint32_t kept = refinement.Shorten(count, threshold);
  if (threadIdx.x != 0) return;
  if (kept > stage.kept_max) state.overflow = 1;
  state.kept = kept;
  state.listed = kept;
  state.threshold = score::ScoreFromOrderedBits(threshold);
}

}  // namespace nearfield::gpu
