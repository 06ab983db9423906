// ProbeGpu in a build without CUDA.
#include "engine/cuda/probe_gpu.h"

namespace nearfield::gpu {

absl::Status ProbeGpu(int32_t /*device*/) {
  return absl::FailedPreconditionError("built without CUDA");
}

int32_t CountGpus() { return 0; }

}  // namespace nearfield::gpu
