// CountBits: the number of set bits of many words.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace nearfield {

// Not every x86-64 processor has POPCNT, and without it std::popcount is a function call. Adds bits
// in fields of doubling width, which compilers do for several words at once.
inline int64_t CountBits(absl::Span<const uint64_t> words) {
  uint64_t count = 0;
  for (uint64_t word : words) {
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    word += word >> 8;
    word += word >> 16;
    word += word >> 32;
    count += word & 0x7fu;
  }
  return static_cast<int64_t>(count);
}

}  // namespace nearfield
