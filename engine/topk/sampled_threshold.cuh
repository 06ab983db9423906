// The kernel of sampled_threshold, for rows of scores. Each score type is compiled in its own file,
// sampled_threshold_<type>.cu.
#pragma once

#include <cstdint>

#include "engine/topk/row_pipeline.cuh"
#include "engine/topk/row_selector.cuh"
#include "engine/topk/row_tasks.cuh"
#include "engine/topk/sampled_threshold.h"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {

// Returns the task of the block: of a launch that gives each row as many blocks, or of one that
// shares them among ragged rows (blocks_per_row = 0).
template <SelectorShape kShape>
__device__ __forceinline__ RowTask TaskOf(const SampledArgs& args, BlockReduceShared& reduce) {
  if (!kShape.grouped) return {blockIdx.x, 0, 0, 1};
  if (args.blocks_per_row == 0) {
    return TaskOfBlock<kShape.threads>(args.rows, args.batch, args.scores_per_block, reduce);
  }
  const auto size = static_cast<uint32_t>(args.blocks_per_row);
  const uint32_t place = blockIdx.x / size;
  return {place, size > 1 ? place : 0, blockIdx.x % size, size};
}

// Returns the plan of a row that has a score.
__device__ __forceinline__ SamplePlan PlanOf(const SampledArgs& args, uint32_t n) {
  if (args.rows.row_begin == nullptr && args.rows.row_end == nullptr) return args.plan;
  if (n <= args.rows.k) return {SampleWay::kEveryKey, 0};
  return args.ragged_plans[31 - static_cast<uint32_t>(__clz(static_cast<int>(n)))];
}

// Selects the k best scores of each row, sorted.
// Grid rows * blocks_per_row, or more blocks than ragged rows; block of the policy: a block, or a
// group of blocks that meet at barriers in device memory (a cooperative launch), works on one row.
// Reads a sample of 0.4 to 25% of the scores, then each score once (16-byte loads). Writes 8 B (6 B
// for 16-bit scores) per result. 1024 x 50,000 fp32: 205 MB, 45 us at 4.53 TB/s.
// Requires: k <= k_max of the policy, SampledArgs as stated there.
// Steps: 1 an even sample gives a threshold that the k best and a few more keys reach; 2 one pass
// keeps the keys that reach it, in shared memory; 3 if there are fewer than k, a lower threshold is
// guessed and the pass repeated; if they do not fit or are still too few, the threshold is searched
// over all keys and the pass repeated; 4 bucket sort; the first k are the answer.
// Source: a sampled threshold with verification, as in "guess, verify, refine" schemes. This one is
// exact for every input, the sample is stratified and jittered, and 64-bit unique keys resolve
// ties. Differs from radix selection (Zhang et al., SC 2023): one pass over the row, not two to
// four.
template <typename Scores, int kPolicy>
__global__ void __launch_bounds__(kSampledPolicies[kPolicy].shape.threads,
                                  kSampledPolicies[kPolicy].blocks_per_sm)
    SampledThresholdKernel(const __grid_constant__ SampledArgs args) {
  constexpr SelectorShape kShape = kSampledPolicies[kPolicy].shape;
  using Selector = RowSelector<ScoreSource<Scores>, kShape>;
  using Reader = RowReader<ScoreSource<Scores>>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<typename Selector::Shared*>(shared_bytes);
  const RowTask task = TaskOf<kShape>(args, shared.reduce);
  if (kShape.grouped && task.size == 0) return;
  const ScoreRow<Scores> row = RowAt<Scores>(args.rows, task.place);
  if (task.rank == 0) row.Pad(kShape.threads);
  if (row.n == 0) return;
  BlockGroup group(args.groups, static_cast<int>(task.group), static_cast<int>(task.rank),
                   static_cast<int>(task.size));
  Selector::Select(Reader(row.scores, row.n), row.k, PlanOf(args, row.n), group,
                   args.candidates + int64_t{kShape.capacity} * task.group, shared, row.results);
  group.Leave();
}

template <typename Scores>
SampledTable MakeSampledTable() {
  SampledTable table;
  table.kernels = {SampledThresholdKernel<Scores, 0>, SampledThresholdKernel<Scores, 1>,
                   SampledThresholdKernel<Scores, 2>};
  table.shared_bytes = {sizeof(RowShared<kSampledPolicies[0].shape>),
                        sizeof(RowShared<kSampledPolicies[1].shape>),
                        sizeof(RowShared<kSampledPolicies[2].shape>)};
  table.pipeline = RowPipelineKernel<Scores>;
  table.pipeline_shared_bytes = sizeof(typename RowPipeline<Scores>::Shared);
  return table;
}

}  // namespace nearfield::gpu
