// Options of the GPU backend.
#pragma once

#include <cstdint>

#include "nearfield/engine/types.h"

namespace nearfield::gpu {

struct GpuOptions {
  int32_t device = 0;  // CUDA ordinal
  // For rows, ranks and bitmaps; 0: 85% of the memory that is free without workspace and reserve.
  int64_t memory_bytes = 0;
  // Page-locked host memory for the rows of collections that keep them on the host.
  int64_t host_rows_bytes = 0;
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
  // Use only what every card of this compute capability has: 75 for 7.5, 80, 86, ...; 0: all that
  // the device has. The answers are the same.
  int32_t capability_max = 0;
};

}  // namespace nearfield::gpu
