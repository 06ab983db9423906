// SlabRange: a linear range of bytes in slabs of the arena, with the table through which kernels
// find the slabs.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/memory/gpu_core.h"

namespace nearfield::gpu {

// Thread safety: not thread-safe.
class SlabRange {
 public:
  explicit SlabRange(std::shared_ptr<GpuCore> core) : core_(std::move(core)) {}
  ~SlabRange();
  SlabRange(const SlabRange&) = delete;
  SlabRange& operator=(const SlabRange&) = delete;

  // Takes slabs for `bytes` bytes, or a part of one if that is enough. Call once, before Write.
  // Requires: bytes > 0. Errors: ResourceExhausted.
  absl::Status Take(int64_t bytes);

  // Copies `bytes` bytes of host memory to byte `at` of the range and after. Reads `data` before
  // it returns; core()->DrainUploads() waits for the copy.
  absl::Status Write(int64_t at, const void* data, int64_t bytes);

  const std::shared_ptr<GpuCore>& core() const { return core_; }
  // Returns a view of the slabs, in which the range begins at byte offset().
  const ExtentView& view() const { return view_; }
  int64_t offset() const { return offset_; }
  int64_t device_bytes() const;

 private:
  const std::shared_ptr<GpuCore> core_;
  std::vector<char*> slabs_;
  int64_t piece_bytes_ = 0;  // taken from the slab; 0: whole slabs
  ExtentView view_;
  int64_t offset_ = 0;
};

}  // namespace nearfield::gpu
