// sampled_threshold: declarations that its host and device sides share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/topk/group_state.h"
#include "engine/topk/sample_target.h"
#include "engine/topk/score_rows.h"
#include "engine/topk/selector_shape.h"

namespace nearfield::gpu {

// One variant of the kernel.
struct SampledPolicy {
  int blocks_per_sm;
  SelectorShape shape;
};
// The first is for many rows, with one block each and four blocks per SM, so that one streams while
// others sample or sort. The second is for ragged rows, of which the long ones get several of these
// blocks. The third is for few rows, with a whole SM per block, and for large k.
inline constexpr std::array<SampledPolicy, 3> kSampledPolicies = {{
    {.blocks_per_sm = 4,
     .shape = {.k_max = 2048,
               .threads = 256,
               .capacity = 3840,
               .bin_bits = 11,
               .vectors = 3,
               .stages = 2,
               .grouped = false,
               .late_ring = true}},
    {.blocks_per_sm = 2,
     .shape = {.k_max = 2048,
               .threads = 512,
               .capacity = 4096,
               .bin_bits = 11,
               .vectors = 3,
               .stages = 2,
               .grouped = true,
               .late_ring = true}},
    {.blocks_per_sm = 1,
     .shape = {.k_max = 6144,
               .threads = 512,
               .capacity = 8192,
               .bin_bits = 12,
               .vectors = 4,
               .stages = 2,
               .grouped = true}},
}};
// Maximum number of rows that several blocks of a launch share.
inline constexpr int kRowGroupsMax = 264;
// Maximum number of ragged rows, and of blocks, if the blocks are shared among the rows.
inline constexpr uint32_t kTaskBlocksMax = 1024;
inline constexpr int kSampledKMax = kSampledPolicies.back().shape.k_max;

// The plans of ragged rows, by the number of bits of their length. A plan for the longest row with
// that many bits serves the others: its sample is at most half of the shortest.
using RaggedPlans = std::array<SamplePlan, 32>;

struct SampledArgs {
  ScoreRows rows;
  SamplePlan plan;           // of rows of the same length
  RaggedPlans ragged_plans;  // of ragged rows
  int32_t blocks_per_row = 1;
  uint32_t batch = 0;
  uint32_t scores_per_block = 0;  // fewer do not justify another block
  // Read only if a row has several blocks.
  GroupState* groups = nullptr;    // [kRowGroupsMax], persists between calls
  uint64_t* candidates = nullptr;  // [kRowGroupsMax][capacity]
};

// The kernels of one score type, one for each policy.
struct SampledTable {
  std::array<void (*)(SampledArgs), kSampledPolicies.size()> kernels;
  std::array<std::size_t, kSampledPolicies.size()> shared_bytes;
};
SampledTable SampledFloat32();
SampledTable SampledFloat16();
SampledTable SampledBFloat16();
SampledTable SampledInt32();
SampledTable SampledUint32();

}  // namespace nearfield::gpu
