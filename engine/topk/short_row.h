// short_row: declarations that its host and device sides share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nearfield::gpu {

// One variant of the kernel. A thread holds `items` scores in registers, and shared memory has room
// for the whole row.
struct ShortRowPolicy {
  int threads;
  int items;
  int bin_bits;
  int blocks_per_sm;

  constexpr int n_max() const { return threads * items; }
};
inline constexpr std::array<ShortRowPolicy, 2> kShortRowPolicies = {{
    {.threads = 256, .items = 12, .bin_bits = 11, .blocks_per_sm = 5},
    {.threads = 512, .items = 32, .bin_bits = 12, .blocks_per_sm = 1},
}};

}  // namespace nearfield::gpu
