// Factory of the GPU backend, which holds exact rows in VRAM and scores and selects them there.
// This header includes no CUDA header. A build without CUDA links a stub that returns an error.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/gpu/gpu_options.h"

namespace nearfield::gpu {

// Creates the GPU backend. Takes all device memory now and seals it: no allocation after this.
// Errors: InvalidArgument (an option), FailedPrecondition (ProbeGpu), ResourceExhausted (memory).
absl::StatusOr<std::unique_ptr<backend::Backend>> MakeGpuTopkEngine(const GpuOptions& options);

}  // namespace nearfield::gpu
