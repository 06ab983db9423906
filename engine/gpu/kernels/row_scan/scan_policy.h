// Variants of the scan kernel, as data. The kernels are instantiated from this table, and tests
// walk it.
#pragma once

#include <array>

namespace nearfield::gpu {

struct ScanPolicy {
  int queries;        // scored against each row while it is in registers
  int blocks_per_sm;  // resident concurrently: sets the register limit of the kernel
  int depth;          // 16-byte loads in flight per lane, for each row
};

inline constexpr int kScanThreads = 256;
// A warp scores this many neighboring rows together: four independent 512-byte loads (fp32) per
// step.
inline constexpr int kScanRows = 4;

// Ascending. Registers per thread: 65,536 / (256 * blocks_per_sm).
inline constexpr std::array<ScanPolicy, 4> kScanPolicies = {{
    {.queries = 1, .blocks_per_sm = 3, .depth = 2},
    {.queries = 2, .blocks_per_sm = 2, .depth = 2},
    {.queries = 4, .blocks_per_sm = 2, .depth = 1},
    {.queries = 8, .blocks_per_sm = 2, .depth = 1},
}};
// The scan for many queries: a block scores this many rows with this many queries.
inline constexpr int kScanTileCapability = 90;  // it needs fp64 products of 16 x 8
inline constexpr int kScanTileThreads = 128;
inline constexpr int kScanTileRows = 64;
inline constexpr int kScanTileQueries = 64;
inline constexpr int kScanTileSharedBytes = 64 * 1024;

static_assert(kScanPolicies.back().queries * kScanRows <= 32, "a lane finishes at most one score");

}  // namespace nearfield::gpu
