// Sizes of the selection of a search, as data.
#pragma once

#include <array>
#include <cstdint>

#include "engine/topk/selector_shape.h"

namespace nearfield::gpu {

inline constexpr int kSelectThreads = 512;
inline constexpr int kSelectKMax = 4097;
// Maximum number of keys that reach the threshold of a problem, in any shape.
inline constexpr int kSelectCapacity = 8192;
// The variants of the kernel. A device uses the first whose shared memory it has: 145 KiB (compute
// capability 8.0, 9.0, 10.0), 98 KiB (8.6, 8.9, 12.0) or 61 KiB (7.5). All take every legal k.
inline constexpr std::array<SelectorShape, 3> kSelectShapes = {{
    {.k_max = kSelectKMax,
     .threads = kSelectThreads,
     .capacity = kSelectCapacity,
     .bin_bits = 12,
     .vectors = 4,
     .stages = 2,
     .grouped = true},
    {.k_max = kSelectKMax,
     .threads = kSelectThreads,
     .capacity = 6144,
     .bin_bits = 12,
     .vectors = 2,
     .stages = 2,
     .grouped = true},
    {.k_max = kSelectKMax,
     .threads = kSelectThreads,
     .capacity = 4608,
     .bin_bits = 11,
     .vectors = 1,
     .stages = 2,
     .grouped = true,
     .merges = true},
}};
static_assert(kSelectKMax <= kSelectShapes.back().capacity, "every legal k has room");
// Keys that one block handles well alone (32 per thread): a second block costs barriers.
inline constexpr int64_t kSelectKeysPerBlock = 16384;
inline constexpr int kSelectPiecesMax = 16;

}  // namespace nearfield::gpu
