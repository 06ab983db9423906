// sampled_threshold: what its host and device sides share.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLED_THRESHOLD_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SAMPLED_THRESHOLD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/gpu/kernels/select/group_state.h"

namespace nearfield::gpu {

// One shape of the kernel. capacity: keys that may reach the threshold; shared memory holds them
// twice.
struct SampledPolicy {
  int k_max;
  int threads;
  int capacity;
  int blocks_per_sm;
  int unroll;  // 16-byte loads in flight a thread; fewer for 16-bit scores
};
// The first two for many rows, one block each: small k leaves room for four blocks an SM, so that
// one streams while others sample or sort. The third for few rows, with all of an SM to a block.
inline constexpr std::array<SampledPolicy, 3> kSampledPolicies = {{
    {.k_max = 384, .threads = 256, .capacity = 2048, .blocks_per_sm = 4, .unroll = 8},
    {.k_max = 2048, .threads = 512, .capacity = 6144, .blocks_per_sm = 2, .unroll = 8},
    {.k_max = 6144, .threads = 1024, .capacity = 8192, .blocks_per_sm = 1, .unroll = 4},
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
