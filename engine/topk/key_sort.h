// Device-wide radix sort of 64-bit keys, by CUB. Host side.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace nearfield::gpu {

constexpr int64_t RoundUpTo256(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Returns the scratch bytes that the sort needs in addition to its two buffers. CUB's own query
// needs a device. This one does not, and its result is never smaller: the bins of every pass (8 at
// most) for every portion of 2^27 keys or more, and the lookback of every tile of 2,048 keys or
// more in a portion of less than 2^28, 256 bins each. LaunchKeySort checks it.
constexpr int64_t KeySortScratchBytes(int64_t count) {
  const int64_t portions = (count >> 27) + 1;
  const int64_t tiles = std::min(count, int64_t{1} << 28) / 2048 + 1;
  return RoundUpTo256(portions * 8 * (256 * 8 + 8) + tiles * 256 * 4 + 8192);
}

// Arguments of a stable sort by bits [begin_bit, 64), descending.
struct KeySort {
  uint64_t* keys = nullptr;   // [count]
  uint64_t* other = nullptr;  // [count]; initial contents are ignored
  void* scratch = nullptr;
  int64_t scratch_bytes = 0;  // at least KeySortScratchBytes(count)
  int64_t count = 0;
  int begin_bit = 0;
};

// Enqueues the sort. Asynchronous. *sorted: the buffer that holds the keys afterwards.
cudaError_t LaunchKeySort(const KeySort& sort, cudaStream_t stream, const uint64_t** sorted);

}  // namespace nearfield::gpu
