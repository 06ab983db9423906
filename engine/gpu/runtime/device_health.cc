#include "engine/gpu/runtime/device_health.h"

#include "absl/strings/str_cat.h"

namespace nearfield::gpu {

absl::Status DeviceHealth::Check(cudaError_t error, const char* call) {
  if (lost_.load(std::memory_order_acquire)) return status();
  if (error == cudaSuccess) return absl::OkStatus();
  const char* const text = cudaGetErrorString(error);
  const char* const name = cudaGetErrorName(error);
  if (error == cudaErrorMemoryAllocation && setup_.load(std::memory_order_acquire)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("GPU ", device_, ": ", call, ": ", text, " (", name, ")"));
  }
  const MutexLock lock(mutex_);
  if (why_.ok()) {
    why_ = absl::UnavailableError(absl::StrCat("GPU ", device_, " is lost: ", call, ": ", text,
                                               " (", name, "); restart the process"));
    lost_.store(true, std::memory_order_release);
  }
  return why_;
}

absl::Status DeviceHealth::status() const {
  const MutexLock lock(mutex_);
  return why_;
}

}  // namespace nearfield::gpu
