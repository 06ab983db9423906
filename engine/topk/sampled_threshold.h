// sampled_threshold: declarations that its host and device sides share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/topk/group_state.h"
#include "engine/topk/sample_target.h"
#include "engine/topk/selector_shape.h"

namespace nearfield::gpu {

// One variant of the kernel.
struct SampledPolicy {
  int blocks_per_sm;
  SelectorShape shape;
};
// The first is for many rows, with one block each and four blocks per SM, so that one streams while
// others sample or sort. The second is for few rows, with a whole SM per block, and for large k.
inline constexpr std::array<SampledPolicy, 2> kSampledPolicies = {{
    {.blocks_per_sm = 4,
     .shape = {.k_max = 2048,
               .threads = 256,
               .capacity = 3840,
               .bin_bits = 11,
               .vectors = 3,
               .stages = 2,
               .grouped = false}},
    {.blocks_per_sm = 1,
     .shape = {.k_max = 6144,
               .threads = 512,
               .capacity = 8192,
               .bin_bits = 12,
               .vectors = 4,
               .stages = 2,
               .grouped = true}},
}};
inline constexpr int kSampledKMax = kSampledPolicies.back().shape.k_max;
inline constexpr int kSampledCapacityMax = kSampledPolicies.back().shape.capacity;

struct SampledArgs {
  const void* scores = nullptr;  // rows `stride` scores apart
  int64_t stride = 0;
  int64_t batch = 0;
  uint32_t n = 0;
  uint32_t k = 0;
  SamplePlan plan;
  void* values = nullptr;       // [batch, k]
  uint32_t* indices = nullptr;  // [batch, k]
  int32_t blocks_per_row = 1;
  // Read only if blocks_per_row > 1.
  GroupState* groups = nullptr;    // [kGroupsMax], persists between calls
  uint64_t* candidates = nullptr;  // [kGroupsMax][2][capacity]
};

// The kernels of one score type, one for each policy.
struct SampledTable {
  std::array<void (*)(SampledArgs), kSampledPolicies.size()> kernels;
  std::array<std::size_t, kSampledPolicies.size()> shared_bytes;
};
SampledTable SampledFloat32();
SampledTable SampledFloat16();
SampledTable SampledBFloat16();

}  // namespace nearfield::gpu
