// The factory of the GPU backend in a build without CUDA: it returns an error.
#include "engine/cuda/probe_gpu.h"
#include "engine/gpu/make_gpu_topk_engine.h"

namespace nearfield::gpu {

absl::StatusOr<std::unique_ptr<backend::Backend>> MakeGpuTopkEngine(const GpuOptions& /*options*/) {
  return ProbeGpu(0);
}

}  // namespace nearfield::gpu
