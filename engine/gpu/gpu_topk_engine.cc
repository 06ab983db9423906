#include "engine/gpu/gpu_topk_engine.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/gpu_backend.h"
#include "engine/gpu/gpu_core.h"

namespace nearfield::gpu {
namespace {

// The lowest architecture that this build has code for; 90 means 9.0.
constexpr int kArchitectureMin = NEARFIELD_CUDA_ARCHITECTURE_MIN;

absl::Status NotUsable(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return absl::FailedPreconditionError("no NVIDIA driver found, or one too old for this build");
    case cudaErrorNoDevice:
      return absl::FailedPreconditionError("no NVIDIA GPU found");
    default:
      return absl::FailedPreconditionError(
          absl::StrCat("the GPU is not usable: ", cudaGetErrorString(error), " (",
                       cudaGetErrorName(error), ")"));
  }
}

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

absl::Status ProbeGpu(int32_t device) {
  int present = 0;
  const cudaError_t counted = cudaGetDeviceCount(&present);
  if (counted != cudaSuccess) return NotUsable(counted);
  if (device < 0 || device >= present) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", device, " asked for, ", present, " present"));
  }
  int major = 0;
  int minor = 0;
  cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return NotUsable(error);
  error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error != cudaSuccess) return NotUsable(error);
  if (major * 10 + minor < kArchitectureMin) {
    return absl::FailedPreconditionError(absl::StrCat("compute capability ", major, ".", minor,
                                                      ", this build is for ", kArchitectureMin / 10,
                                                      ".", kArchitectureMin % 10));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeGpuTopkEngine(const GpuOptions& options) {
  static_assert(kSelectKMax == kKMax + 1, "a query by id asks for one more");
  ABSL_RETURN_IF_ERROR(CheckOptions(options));
  ABSL_RETURN_IF_ERROR(ProbeGpu(options.device));
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<GpuCore> core, GpuCore::Create(options));
  return std::unique_ptr<corpus::Backend>(std::make_unique<GpuBackend>(std::move(core), options));
}

}  // namespace nearfield::gpu
