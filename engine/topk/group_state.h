// State that the blocks of a group share in device memory. Plain data.
#pragma once

#include <cstdint>

namespace nearfield::gpu {

inline constexpr int kGroupBins = 4096;

struct GroupCounts {
  uint32_t bins[kGroupBins];
  uint64_t any;      // OR of the counted keys
  uint64_t any_not;  // OR of their complements
  uint32_t candidates;
  uint32_t reserved[59];  // pads to 256 bytes
};

// Zero before its first use. Each launch leaves it ready for the next one.
struct GroupState {
  GroupCounts counts[3];
  uint32_t arrived;  // arrivals at the barrier since the launch began
  uint32_t left;     // blocks that have finished the launch
  uint32_t rounds;   // rounds of all launches so far, modulo 3
  uint32_t reserved[61];
};
static_assert(sizeof(GroupState) % 256 == 0, "states of different groups share no line");

// Maximum number of groups of several blocks in one launch: two blocks per group on a device of 132
// SMs.
inline constexpr int kGroupsMax = 66;

}  // namespace nearfield::gpu
