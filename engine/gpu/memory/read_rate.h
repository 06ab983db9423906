// Measures how fast a device reads its memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nearfield::gpu {

// Writes the bytes per second of streaming loads, the best of several passes over the `bytes` bytes
// at `memory` (16-byte aligned; more than the caches hold). The contents do not matter. Blocks
// for a few milliseconds.
cudaError_t MeasureReadRate(const char* memory, int64_t bytes, int sm_count, cudaStream_t stream,
                            double* bytes_per_second);

}  // namespace nearfield::gpu
