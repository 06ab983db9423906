// Runs GPU tests with the kernels of a lesser GPU.
#pragma once

#include <cstdint>

namespace nearfield::testing {

// Returns the number in the environment variable NEARFIELD_TEST_GPU_CAPABILITY, for
// EngineOptions::gpu_capability_max; 0 without the variable.
int32_t GpuCapabilityMax();

}  // namespace nearfield::testing
