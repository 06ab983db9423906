#include "engine/cuda/probe_gpu.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"

namespace nearfield::gpu {
namespace {

// The lowest architecture that this build has code for; 90 means 9.0.
constexpr int kArchitectureMin = NEARFIELD_CUDA_ARCHITECTURE_MIN;

absl::Status NotUsable(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return absl::FailedPreconditionError("no NVIDIA driver found, or one too old for this build");
    case cudaErrorNoDevice: return absl::FailedPreconditionError("no NVIDIA GPU found");
    default:
      return absl::FailedPreconditionError(
          absl::StrCat("the GPU is not usable: ", cudaGetErrorString(error), " (",
                       cudaGetErrorName(error), ")"));
  }
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

int32_t CountGpus() {
  int present = 0;
  return cudaGetDeviceCount(&present) == cudaSuccess ? present : 0;
}

}  // namespace nearfield::gpu
