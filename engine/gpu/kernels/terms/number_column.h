// NumberColumn: the numbers of a term in one generation, on the device. Plain data; host and
// device.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/score/row_terms.h"

namespace nearfield::gpu {

// Rows whose numbers have a range.
inline constexpr int64_t kNumberTileRows = 64;

// Does not straddle two slabs.
struct alignas(32) TileRange {
  NumberRange range;
};

struct NumberColumn {
  ExtentView extent;
  int64_t offset = 0;         // bytes into extent: [rows] fp64, by slot
  int64_t ranges_offset = 0;  // bytes into extent: [ceil(rows / 64)] TileRange

  NEARFIELD_HOST_DEVICE double at(uint32_t slot) const {
    return *extent.at<const double>(offset + int64_t{8} * slot);
  }
  NEARFIELD_HOST_DEVICE const NumberRange& range(uint32_t tile) const {
    return extent.at<const TileRange>(ranges_offset + int64_t{sizeof(TileRange)} * tile)->range;
  }
};

}  // namespace nearfield::gpu
