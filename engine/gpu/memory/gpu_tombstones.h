// GpuTombstones: a set of deleted slots, on the host and in slabs of the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/memory/slab_range.h"

namespace nearfield::gpu {

class GpuTombstones : public backend::Tombstones {
 public:
  // Copies the bits to the device and blocks until they are there.
  static absl::StatusOr<std::unique_ptr<GpuTombstones>> Make(std::shared_ptr<GpuCore> core,
                                                             std::vector<uint64_t> words);

  absl::Span<const uint64_t> words() const override { return words_; }

  const GpuCore* core() const { return range_.core().get(); }
  const TombstoneView& view() const { return view_; }
  // Returns the slots that are not deleted, if they are few; else an empty list. The words do not
  // say how many rows exist, so the list may end with slots after the last row.
  const SlotList& live_slots() const { return live_slots_; }

 private:
  GpuTombstones(std::shared_ptr<GpuCore> core, std::vector<uint64_t> words);

  SlabRange range_;
  const std::vector<uint64_t> words_;
  TombstoneView view_;
  SlotList live_slots_;
};

}  // namespace nearfield::gpu
