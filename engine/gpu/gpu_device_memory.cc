#include "engine/gpu/gpu_device_memory.h"

#include <cuda_runtime_api.h>

namespace nearfield::gpu {

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
