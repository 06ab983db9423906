// Many rows of the same length, streamed without a pause: the teams of a block have different work.
//
// One team, the filter, does nothing but stream the block's rows and keep the keys that reach a
// threshold; it requests the begin of a row before it has finished the one before. Meanwhile the
// other teams take turns: each samples a row to come, and sorts the keys of a row that was
// filtered. A row that a guessed threshold does not decide is selected again at the end.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/topk/bucket_sort.cuh"
#include "engine/topk/key_collector.cuh"
#include "engine/topk/row_selector.cuh"
#include "engine/topk/sampled_threshold.h"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {

template <typename Scores>
class RowPipeline {
 public:
  static constexpr int kThreads = kPipelineShape.threads;
  // 32 scores of each thread are tested at once.
  static constexpr int kVectors = 32 / ScoreVector<ScoreSource<Scores>>::kCount;
  using Source = ScoreSource<Scores>;
  using Selector = RowSelector<Source, kPipelineShape>;
  using Ring = RowRing<kThreads, kVectors, kPipelineRingBytes / (kThreads * kVectors * 16)>;

  struct Shared {
    typename Selector::Shared teams[kPipelineTeams];
    Ring ring;
    uint64_t thresholds[kPipelineTeams];
    uint32_t undecided;  // rows
  };

  // The work of a thread of the block.
  __device__ static void Run(const SampledArgs& args, Shared& shared) {
    if (threadIdx.x == 0 && threadIdx.y == kPipelineTeams) shared.undecided = 0;
    if (threadIdx.y == kPipelineTeams) {
      FilterRows(args, shared);
    } else {
      SortRows(args, shared, threadIdx.y);
    }
    __syncthreads();
    if (threadIdx.y == 0 && shared.undecided > 0) SelectUndecided(args, shared.teams[0]);
  }

 private:
  using Team = TeamOfBlock<kThreads>;
  using Stage = RowStage<Source, kThreads, kVectors>;
  static constexpr uint32_t kStep = kVectors * kThreads;  // vectors of a stage

  // Barriers of the filter and one team. Those before them are the barriers of each team.
  static constexpr uint32_t kThresholdBarriers = kPipelineTeams + 1;
  static constexpr uint32_t kKeysBarriers = kThresholdBarriers + kPipelineTeams;
  __device__ static void Arrive(uint32_t barrier) {
    asm volatile("bar.arrive %0, %1;" : : "r"(barrier), "n"(2 * kThreads) : "memory");
  }
  __device__ static void Await(uint32_t barrier) {
    asm volatile("bar.sync %0, %1;" : : "r"(barrier), "n"(2 * kThreads) : "memory");
  }

  __device__ static RowReader<Source> ReaderAt(const SampledArgs& args, uint32_t place) {
    const ScoreRow<Scores> row = RowAt<Scores>(args.rows, place);
    return RowReader<Source>(row.scores, row.n);
  }

  // Requests the stages of all rows of the block, one after the other.
  class Requests {
   public:
    __device__ Requests(const SampledArgs& args, Ring& ring)
        : args_(args), ring_(ring), place_(blockIdx.x), row_(ReaderAt(args, blockIdx.x)) {}

    __device__ void Next(int stage) {
      if (place_ < args_.batch) {
        Stage(row_, first_ + threadIdx.x, kThreads).Request(ring_.slots[stage]);
        first_ += kStep;
        if (first_ >= row_.vectors()) {
          first_ = 0;
          place_ += gridDim.x;
          if (place_ < args_.batch) row_ = ReaderAt(args_, place_);
        }
      }
      __pipeline_commit();
    }

   private:
    const SampledArgs& args_;
    Ring& ring_;
    uint32_t place_;
    RowReader<Source> row_;
    uint32_t first_ = 0;
  };

  __device__ static void FilterRows(const SampledArgs& args, Shared& shared) {
    Requests requests(args, shared.ring);
#pragma unroll 1
    for (int stage = 0; stage < Ring::kStages; ++stage) requests.Next(stage);
    int stage = 0;
    uint32_t team = 0;
    for (uint32_t place = blockIdx.x; place < args.batch; place += gridDim.x) {
      const RowReader<Source> row = ReaderAt(args, place);
      Await(kThresholdBarriers + team);
      const uint64_t threshold = shared.thresholds[team];
      typename Selector::Shared& keys = shared.teams[team];
      const KeyQueue queue = {keys.keys, &keys.queued, Selector::Shared::kKeys};
      if (Source::QuickTestIsExact(threshold)) {
        const typename Source::QuickTest test(threshold);
        stage = FilterRow(row, test, queue, stage, requests, shared.ring);
      } else {
        stage = FilterRow(row, ExactTest<Source>{threshold}, queue, stage, requests, shared.ring);
      }
      Arrive(kKeysBarriers + team);
      team = team + 1 == kPipelineTeams ? 0 : team + 1;
    }
  }

  // Returns the stage after those of the row. Like Requests, it takes a stage also for a row
  // without vectors.
  template <typename Test>
  __device__ static int FilterRow(const RowReader<Source>& row, const Test& test,
                                  const KeyQueue& queue, int stage, Requests& requests,
                                  Ring& ring) {
    uint32_t first = 0;
    do {
      __pipeline_wait_prior(Ring::kStages - 1);
      Stage(row, first + threadIdx.x, kThreads).Append(ring.slots[stage], test, queue);
      requests.Next(stage);
      stage = stage + 1 == Ring::kStages ? 0 : stage + 1;
      first += kStep;
    } while (first < row.vectors());
    if (threadIdx.x < kWarp) AppendEdges(row, test, queue);
    return stage;
  }

  // Every kPipelineTeams-th row of the block. The threshold of a team's next row is published when
  // the keys of the one before are sorted, because both rows use the same memory.
  __device__ static void SortRows(const SampledArgs& args, Shared& all, uint32_t team) {
    typename Selector::Shared& shared = all.teams[team];
    const uint32_t step = gridDim.x * kPipelineTeams;
    uint32_t place = blockIdx.x + gridDim.x * team;
    if (place < args.batch) Publish(GuessOf(args, place, shared), all, team);
    for (; place < args.batch; place += step) {
      const bool more = place + step < args.batch;
      uint64_t guess = 0;
      if (more) guess = GuessOf(args, place + step, shared);
      Await(kKeysBarriers + team);
      if (!SortKeys(RowAt<Scores>(args.rows, place), shared) && threadIdx.x == 0) {
        RowAt<Scores>(args.rows, place).results.None(0);
        atomicAdd(&all.undecided, 1u);
      }
      Team::Sync();
      if (more) Publish(guess, all, team);
    }
  }

  __device__ static uint64_t GuessOf(const SampledArgs& args, uint32_t place,
                                     typename Selector::Shared& shared) {
    const ScoreRow<Scores> row = RowAt<Scores>(args.rows, place);
    const uint64_t guess = Selector::Guess(ReaderAt(args, place), row.k, args.plan, shared);
    Team::Sync();
    return guess;
  }

  __device__ static void Publish(uint64_t guess, Shared& all, uint32_t team) {
    if (threadIdx.x == 0) {
      all.thresholds[team] = guess;
      all.teams[team].queued = 0;
    }
    Arrive(kThresholdBarriers + team);
  }

  // Returns false if the keys that reached the threshold do not decide the row.
  __device__ static bool SortKeys(const ScoreRow<Scores>& row, typename Selector::Shared& shared) {
    const uint32_t found = shared.queued;
    return row.k <= found && found <= Selector::Shared::kKeys &&
           BucketSort<Source, typename Selector::Shared>::TryAll(
               shared, found, row.k, Source::BitsOf(row.n), row.results);
  }

  // Selects the rows that SortRows marked. One team calls it, when the others have ended.
  __device__ __noinline__ static void SelectUndecided(const SampledArgs& args,
                                                      typename Selector::Shared& shared) {
    __builtin_assume(__isShared(&shared));
    for (uint32_t place = blockIdx.x; place < args.batch; place += gridDim.x) {
      const ScoreRow<Scores> row = RowAt<Scores>(args.rows, place);
      if (row.results.indices[0] != kNoIndex) continue;
      BlockGroup alone;
      Selector::Select(ReaderAt(args, place), row.k, args.plan, alone, nullptr, shared, row.results,
                       1);
      Team::Sync();
    }
  }
};

// Selects the k best scores of each row, sorted.
// Grid: a block for each SM, or for each row if there are fewer; block [kThreads, kPipelineTeams +
// 1]. Reads and writes, steps: as SampledThresholdKernel.
// Requires: rows of the same length, SamplePlan of the way kOwnSample, k <= k_max of the shape.
// Source: blocks whose warps have different work, as in CUTLASS's persistent kernels.
template <typename Scores>
__global__ void __launch_bounds__(kPipelineShape.threads*(kPipelineTeams + 1), 1)
    RowPipelineKernel(const __grid_constant__ SampledArgs args) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  using Pipeline = RowPipeline<Scores>;
  Pipeline::Run(args, *reinterpret_cast<typename Pipeline::Shared*>(shared_bytes));
}

}  // namespace nearfield::gpu
