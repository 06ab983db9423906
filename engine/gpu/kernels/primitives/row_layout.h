// Positions of the dimensions of a row on the device, and of a query in shared memory. Host and
// device.
//
// A row is padded with zeros to a multiple of 32 elements. Its full blocks of 128 elements are
// interleaved: position 128i + 4L + j holds dimension 128i + 32j + L. So lane L of a warp loads
// the dimensions that it accumulates (d mod 32 == L) with one vector load of four elements. The
// tail, 0 to 96 elements, keeps its natural order.
#pragma once

#include <cstdint>

#include "engine/cuda/warp.h"
#include "engine/score/host_device.h"

namespace nearfield::gpu {

inline constexpr int kBlockDims = 128;                // dimensions of one interleaved block
inline constexpr int kLaneDims = kBlockDims / kWarp;  // dimensions of a block per lane

// Shape of one padded row.
struct RowShape {
  int32_t dim = 0;
  int32_t padded = 0;       // elements of a stored row: dim rounded up to 32
  int32_t full_blocks = 0;  // interleaved blocks of 128
  int32_t tail_words = 0;   // groups of 32 after them: 0 .. 3
};

NEARFIELD_HOST_DEVICE constexpr RowShape RowShapeOf(int32_t dim) {
  const int32_t padded = (dim + kWarp - 1) / kWarp * kWarp;
  return RowShape{dim, padded, padded / kBlockDims, (padded % kBlockDims) / kWarp};
}

// Returns the position in the row of dimension d. Requires: 0 <= d < padded.
NEARFIELD_HOST_DEVICE constexpr int32_t RowPosition(const RowShape& shape, int32_t d) {
  const int32_t block = d / kBlockDims;
  if (block >= shape.full_blocks) return d;
  const int32_t inside = d % kBlockDims;
  return block * kBlockDims + (inside % kWarp) * kLaneDims + inside / kWarp;
}

// Returns the position of dimension d in a query staged as fp64 in shared memory. In a block, the
// pairs (j = 0, 1) and (2, 3) of all lanes are contiguous, so a warp reads adjacent 16-byte pairs
// without bank conflicts.
NEARFIELD_HOST_DEVICE constexpr int32_t QueryPosition(const RowShape& shape, int32_t d) {
  const int32_t block = d / kBlockDims;
  if (block >= shape.full_blocks) return d;
  const int32_t inside = d % kBlockDims;
  const int32_t j = inside / kWarp;
  const int32_t lane = inside % kWarp;
  return block * kBlockDims + (j / 2) * (2 * kWarp) + lane * 2 + j % 2;
}

}  // namespace nearfield::gpu
