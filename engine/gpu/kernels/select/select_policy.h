// The sizes of the selection, as data.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SELECT_POLICY_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SELECT_POLICY_H_

#include <array>
#include <cstdint>

namespace nearfield::gpu {

inline constexpr int kSelectThreads = 1024;
inline constexpr int kSelectKMax = 4097;
// Keys that one block handles well alone (16 a thread): a second block costs a barrier a pass.
inline constexpr int64_t kSelectKeysPerBlock = 16384;
// Problems worked on at once by several blocks each; bounds the histograms in the workspace. Two
// blocks an SM group on a device of 132.
inline constexpr int kSelectGroupsMax = 66;
inline constexpr int kSelectPiecesMax = 16;

// Keys sorted at the end, by k: enough above k that a digit seldom splits too finely, few enough to
// sort fast.
struct SelectPolicy {
  int k_max;
  int capacity;  // candidates at most; a multiple of kSelectThreads
};
inline constexpr std::array<SelectPolicy, 4> kSelectPolicies = {{
    {.k_max = 512, .capacity = 1024},
    {.k_max = 1024, .capacity = 2048},
    {.k_max = 2048, .capacity = 4096},
    {.k_max = kSelectKMax, .capacity = 8192},
}};
inline constexpr int kSelectCapacityMax = kSelectPolicies.back().capacity;
static_assert(kSelectKMax <= kSelectCapacityMax, "every legal k has room");

// Requires 1 <= k <= kSelectKMax.
constexpr int SelectCapacity(int k) {
  for (const SelectPolicy& policy : kSelectPolicies) {
    if (k <= policy.k_max) return policy.capacity;
  }
  return 0;
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_SELECT_POLICY_H_
