#include "engine/gpu/make_gpu_topk_engine.h"

#include <limits>
#include <utility>

#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/cuda/probe_gpu.h"
#include "engine/gpu/gpu_topk_engine.h"
#include "engine/gpu/memory/gpu_core.h"

namespace nearfield::gpu {
namespace {

absl::Status CheckOptions(const GpuOptions& options) {
  constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  ABSL_RETURN_IF_ERROR(CheckRange("memory_bytes", options.memory_bytes, 0, kUnbounded));
  ABSL_RETURN_IF_ERROR(CheckRange("host_rows_bytes", options.host_rows_bytes, 0, kUnbounded));
  ABSL_RETURN_IF_ERROR(CheckRange("k_max", options.k_max, 1, kSelectKMax));
  return CheckRange("batch_max", options.batch_max, 1, kUnbounded);
}

}  // namespace

absl::StatusOr<std::unique_ptr<backend::Backend>> MakeGpuTopkEngine(const GpuOptions& options) {
  static_assert(kSelectKMax == kKMax + 1, "a query by id asks for one more");
  ABSL_RETURN_IF_ERROR(CheckOptions(options));
  ABSL_RETURN_IF_ERROR(ProbeGpu(options.device));
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<GpuCore> core, GpuCore::Create(options));
  return std::unique_ptr<backend::Backend>(
      std::make_unique<GpuTopkEngine>(std::move(core), options));
}

}  // namespace nearfield::gpu
