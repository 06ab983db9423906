// The kernel of sampled_threshold, for rows of scores. Each score type is compiled in its own file,
// sampled_threshold_<type>.cu.
#pragma once

#include <cstdint>

#include "engine/topk/row_selector.cuh"
#include "engine/topk/sampled_threshold.h"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {

// Selects the k best scores of each row, sorted.
// Grid rows * blocks_per_row, block of the policy: a block, or a group of blocks that meet at
// barriers in device memory (a cooperative launch), works on one row at a time. Group g has rows g,
// g + groups, ...
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
  using Raw = typename Scores::Raw;
  constexpr int64_t kCapacity = kShape.capacity;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<typename Selector::Shared*>(shared_bytes);
  BlockGroup group(args.groups, kShape.grouped ? args.blocks_per_row : 1);
  const int64_t groups = kShape.grouped ? gridDim.x / static_cast<uint32_t>(args.blocks_per_row)
                                        : static_cast<int64_t>(gridDim.x);
  // A group alternates between two buffers: the leader may still read one while the others fill the
  // next.
  uint64_t* buffers = args.candidates + group.index() * 2 * kCapacity;
  int turn = 0;
  for (int64_t row = group.index(); row < args.batch; row += groups, turn ^= 1) {
    const RowReader<ScoreSource<Scores>> reader(
        static_cast<const Raw*>(args.scores) + row * args.stride, args.n);
    const ScoreResults<Scores> results = {static_cast<Raw*>(args.values) + row * args.k,
                                          args.indices + row * args.k};
    Selector::Select(reader, args.k, args.plan, group, buffers + turn * kCapacity, shared, results);
    __syncthreads();
  }
  group.Leave();
}

template <typename Scores>
SampledTable MakeSampledTable() {
  SampledTable table;
  table.kernels = {SampledThresholdKernel<Scores, 0>, SampledThresholdKernel<Scores, 1>};
  table.shared_bytes = {sizeof(RowShared<kSampledPolicies[0].shape>),
                        sizeof(RowShared<kSampledPolicies[1].shape>)};
  return table;
}

}  // namespace nearfield::gpu
