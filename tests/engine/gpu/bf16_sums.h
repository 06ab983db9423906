// Sums of products of bf16 elements as the tensor cores make them, alone: what the bound of a bf16
// copy assumes of the hardware can be held against it.
#ifndef NEARFIELD_TESTS_ENGINE_GPU_BF16_SUMS_H_
#define NEARFIELD_TESTS_ENGINE_GPU_BF16_SUMS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nearfield::gpu {

inline constexpr int kSumsRows = 64;
inline constexpr int kSumsQueries = 16;
inline constexpr int kSumsElements = 64;  // dimensions are a multiple of this

// sums[row * kSumsQueries + query], of rows [kSumsRows, dimension] and queries [kSumsQueries,
// dimension], bf16 bits. All device memory. Asynchronous. Needs a device of 9.0.
cudaError_t LaunchBf16Sums(const uint16_t* rows, const uint16_t* queries, int dimension,
                           float* sums);

}  // namespace nearfield::gpu

#endif  // NEARFIELD_TESTS_ENGINE_GPU_BF16_SUMS_H_
