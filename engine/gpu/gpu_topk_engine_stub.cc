// The GPU backend of a build without CUDA: both functions return an error.
#include "engine/gpu/gpu_topk_engine.h"

namespace nearfield::gpu {

absl::Status ProbeGpu(int32_t /*device*/) {
  return absl::FailedPreconditionError("built without CUDA");
}

absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeGpuTopkEngine(const GpuOptions& /*options*/) {
  return ProbeGpu(0);
}

}  // namespace nearfield::gpu
