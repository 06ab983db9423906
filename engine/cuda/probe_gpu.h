// Test for a usable GPU. Includes no CUDA header; a build without CUDA links a stub.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace nearfield::gpu {

// Returns OK if the GPU `device` is present and this build has code for it.
// Errors: FailedPrecondition with the reason ("built without CUDA", "no NVIDIA driver found",
// "device 3 asked for, 1 present", "compute capability 7.5, this build is for 9.0").
absl::Status ProbeGpu(int32_t device);

// Returns the number of GPUs that the driver reports; 0 without a driver or a build with CUDA.
int32_t CountGpus();

}  // namespace nearfield::gpu
