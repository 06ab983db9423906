// Sizes of the selection of a search, as data.
#pragma once

#include <cstdint>

namespace nearfield::gpu {

inline constexpr int kSelectThreads = 512;
inline constexpr int kSelectKMax = 4097;
// Maximum number of keys that reach the threshold of a problem.
inline constexpr int kSelectCapacity = 8192;
static_assert(kSelectKMax <= kSelectCapacity, "every legal k has room");
// Keys that one block handles well alone (32 per thread): a second block costs barriers.
inline constexpr int64_t kSelectKeysPerBlock = 16384;
inline constexpr int kSelectPiecesMax = 16;

}  // namespace nearfield::gpu
