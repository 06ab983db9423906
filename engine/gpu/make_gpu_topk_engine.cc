#include "engine/gpu/make_gpu_topk_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/gpu_topk_engine.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/runtime/probe_gpu.h"

namespace nearfield::gpu {
namespace {

absl::Status CheckOptions(const GpuOptions& options) {
  if (options.memory_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory_bytes = ", options.memory_bytes, ", must not be negative"));
  }
  if (options.host_rows_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host_rows_bytes = ", options.host_rows_bytes, ", must not be negative"));
  }
  if (options.k_max < 1 || options.k_max > kSelectKMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("k_max = ", options.k_max, ", must be 1 .. ", kSelectKMax));
  }
  if (options.batch_max < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_max = ", options.batch_max, ", must be at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeGpuTopkEngine(const GpuOptions& options) {
  static_assert(kSelectKMax == kKMax + 1, "a query by id asks for one more");
  ABSL_RETURN_IF_ERROR(CheckOptions(options));
  ABSL_RETURN_IF_ERROR(ProbeGpu(options.device));
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<GpuCore> core, GpuCore::Create(options));
  return std::unique_ptr<corpus::Backend>(
      std::make_unique<GpuTopkEngine>(std::move(core), options));
}

}  // namespace nearfield::gpu
