// GpuDeviceMemory: adjacent slabs of the arena that a caller of the engine holds.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "nearfield/engine/device_search.h"

namespace nearfield::gpu {

class GpuDeviceMemory final : public DeviceMemory {
 public:
  GpuDeviceMemory(std::shared_ptr<GpuCore> core, std::vector<char*> slabs)
      : core_(std::move(core)), slabs_(std::move(slabs)) {}
  ~GpuDeviceMemory() override;
  GpuDeviceMemory(const GpuDeviceMemory&) = delete;
  GpuDeviceMemory& operator=(const GpuDeviceMemory&) = delete;

  char* data() const override { return slabs_.front(); }
  int64_t bytes() const override {
    return static_cast<int64_t>(slabs_.size()) * core_->arena().slab_bytes();
  }

 private:
  const std::shared_ptr<GpuCore> core_;
  const std::vector<char*> slabs_;
};

}  // namespace nearfield::gpu
