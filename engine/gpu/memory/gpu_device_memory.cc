#include "engine/gpu/memory/gpu_device_memory.h"

#include <cuda_runtime_api.h>

#include <limits>

#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/runtime/cuda_handles.h"

namespace nearfield::gpu {

absl::StatusOr<std::unique_ptr<GpuDeviceMemory>> GpuDeviceMemory::Take(
    std::shared_ptr<GpuCore> core, int64_t bytes) {
  ABSL_RETURN_IF_ERROR(CheckRange("bytes", bytes, 1, std::numeric_limits<int64_t>::max()));
  ABSL_ASSIGN_OR_RETURN(
      std::vector<char*> slabs,
      core->arena().TakeAdjacentSlabs((bytes - 1) / core->arena().slab_bytes() + 1));
  return std::unique_ptr<GpuDeviceMemory>(new GpuDeviceMemory(std::move(core), std::move(slabs)));
}

GpuDeviceMemory::~GpuDeviceMemory() {
  const CurrentDevice restored;
  // A kernel of the caller may still read the memory. After an error the device is lost, and no
  // slab is taken again.
  if (core_->Bind().ok()) {
    core_->health().Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize").IgnoreError();
  }
  core_->arena().Release(slabs_);
}

}  // namespace nearfield::gpu
