#include "engine/gpu/runtime/cuda_handles.h"

#include <cstddef>

#include "engine/base/status_macros.h"

namespace nearfield::gpu {

absl::Status Stream::Create(DeviceHealth& health, Priority priority) {
  int least = 0;
  int greatest = 0;
  ABSL_RETURN_IF_ERROR(health.Check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                    "cudaDeviceGetStreamPriorityRange"));
  const int level = priority == Priority::kHigh ? greatest : least;
  return health.Check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, level),
                      "cudaStreamCreateWithPriority");
}

absl::Status Event::Create(DeviceHealth& health) {
  return health.Check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                      "cudaEventCreateWithFlags");
}

absl::Status PinnedMemory::Create(DeviceHealth& health, int64_t bytes) {
  void* host = nullptr;
  ABSL_RETURN_IF_ERROR(health.Check(
      cudaHostAlloc(&host, static_cast<std::size_t>(bytes), cudaHostAllocMapped), "cudaHostAlloc"));
  host_ = static_cast<char*>(host);
  bytes_ = bytes;
  void* device = nullptr;
  ABSL_RETURN_IF_ERROR(
      health.Check(cudaHostGetDevicePointer(&device, host, 0), "cudaHostGetDevicePointer"));
  device_ = static_cast<char*>(device);
  // With unified addresses a pointer of the host is one of the device.
  if (device_ != host_) return absl::FailedPreconditionError("CUDA: no unified addresses");
  return absl::OkStatus();
}

}  // namespace nearfield::gpu
