// GpuDeviceIds: the ids of a generation by rank, in slabs of the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/memory/slab_range.h"

namespace nearfield::gpu {

class GpuDeviceIds final : public backend::DeviceIds {
 public:
  // Copies the ids to the device and blocks until they are there. Requires: rows_count > 0.
  static absl::StatusOr<std::unique_ptr<GpuDeviceIds>> Make(std::shared_ptr<GpuCore> core,
                                                            int64_t rows_count,
                                                            backend::FillIds fill);

  int64_t device_bytes() const override { return range_.device_bytes(); }
  const GpuCore* core() const { return range_.core().get(); }
  int64_t rows_count() const { return rows_count_; }
  const SlabRange& range() const { return range_; }

 private:
  GpuDeviceIds(std::shared_ptr<GpuCore> core, int64_t rows_count)
      : range_(std::move(core)), rows_count_(rows_count) {}

  SlabRange range_;
  const int64_t rows_count_;
};

}  // namespace nearfield::gpu
