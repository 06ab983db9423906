// GpuDeviceMemory: adjacent slabs of the arena that a caller of the engine holds.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/gpu/memory/gpu_core.h"
#include "nearfield/engine/device_search.h"

namespace nearfield::gpu {

class GpuDeviceMemory final : public DeviceMemory {
 public:
  // Errors: InvalidArgument (bytes below 1), ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<GpuDeviceMemory>> Take(std::shared_ptr<GpuCore> core,
                                                               int64_t bytes);
  ~GpuDeviceMemory() override;
  GpuDeviceMemory(const GpuDeviceMemory&) = delete;
  GpuDeviceMemory& operator=(const GpuDeviceMemory&) = delete;

  char* data() const override { return slabs_.front(); }
  int64_t bytes() const override {
    return static_cast<int64_t>(slabs_.size()) * core_->arena().slab_bytes();
  }

 private:
  GpuDeviceMemory(std::shared_ptr<GpuCore> core, std::vector<char*> slabs)
      : core_(std::move(core)), slabs_(std::move(slabs)) {}

  const std::shared_ptr<GpuCore> core_;
  const std::vector<char*> slabs_;
};

}  // namespace nearfield::gpu
