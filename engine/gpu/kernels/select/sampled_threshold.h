// sampled_threshold: what its host and device sides share.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLED_THRESHOLD_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLED_THRESHOLD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/gpu/kernels/select/group_state.h"

namespace nearfield::gpu {

// One shape of the kernel. capacity: keys that may reach the threshold.
struct SampledPolicy {
  int k_max;
  int threads;
  int capacity;
  int bin_bits;
  int vectors;  // of 16 bytes, a thread and stage
  int stages;   // in flight
  int blocks_per_sm;
};
// The first for many rows, one block each: three an SM, so that one streams while others sample or
// sort. The second for few rows, with all of an SM to a block, and for great k.
inline constexpr std::array<SampledPolicy, 2> kSampledPolicies = {{
    {.k_max = 2048,
     .threads = 256,
     .capacity = 4352,
     .bin_bits = 11,
     .vectors = 4,
     .stages = 2,
     .blocks_per_sm = 3},
    {.k_max = 6144,
     .threads = 512,
     .capacity = 8192,
     .bin_bits = 12,
     .vectors = 4,
     .stages = 2,
     .blocks_per_sm = 1},
}};
inline constexpr int kSampledKMax = kSampledPolicies.back().k_max;
inline constexpr int kSampledCapacityMax = kSampledPolicies.back().capacity;

struct SampledArgs {
  const void* scores = nullptr;  // rows `stride` scores apart
  int64_t stride = 0;
  int64_t batch = 0;
  uint32_t n = 0;
  uint32_t k = 0;
  void* values = nullptr;       // [batch, k]
  uint32_t* indices = nullptr;  // [batch, k]
  int32_t blocks_per_row = 1;
  // Read only where blocks_per_row > 1.
  GroupState* groups = nullptr;    // [kGroupsMax], kept from call to call
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

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLED_THRESHOLD_H_
