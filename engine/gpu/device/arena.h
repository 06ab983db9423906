// The memory of an engine, taken once at creation: a workspace of fixed parts, then slabs of one
// size that come and go. On the device, by the only cudaMalloc in the tree, or on the host.
#ifndef NEARFIELD_ENGINE_GPU_DEVICE_ARENA_H_
#define NEARFIELD_ENGINE_GPU_DEVICE_ARENA_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/gpu/device/device_health.h"

namespace nearfield::gpu {

// Slabs of an arena of `bytes`: 2 MiB, the device's own page, or less where few of them would fit.
// A power of two.
constexpr int32_t SlabShift(int64_t bytes) { return bytes >= (int64_t{1} << 30) ? 21 : 18; }

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  struct Sizes {
    int64_t workspace_bytes = 0;
    int64_t slab_bytes = 0;  // for slabs, all together; rounded down to whole ones
  };
  // Takes device memory. Once, as the next. Errors: ResourceExhausted (not to be had),
  // FailedPrecondition (already taken).
  absl::Status Create(DeviceHealth& health, const Sizes& sizes);

  // Takes page-locked host memory, which kernels read and write over the link: slabs alone.
  absl::Status CreateOnHost(DeviceHealth& health, int64_t bytes);

  // Cuts the next `bytes` off the workspace, 256-byte aligned; only before Seal. Errors:
  // FailedPrecondition (sealed), ResourceExhausted (the workspace was sized too small).
  absl::StatusOr<char*> TakeWorkspace(int64_t bytes);

  // From now on nothing but slabs comes out.
  void Seal();

  // `count` slabs, lowest addresses first, or none. Errors: ResourceExhausted (needed and free
  // bytes). Thread-safe, as is all that follows.
  absl::StatusOr<std::vector<char*>> TakeSlabs(int64_t count);
  void GiveBack(const std::vector<char*>& slabs);

  int32_t slab_shift() const { return slab_shift_; }
  int64_t slab_bytes() const { return int64_t{1} << slab_shift_; }
  int64_t bytes_total() const { return slabs_count_ << slab_shift_; }  // of slabs
  int64_t bytes_used() const;

 private:
  absl::Status CheckNew() const;
  void CutSlabs();

  bool on_host_ = false;
  char* base_ = nullptr;
  int64_t workspace_bytes_ = 0;
  int64_t workspace_used_ = 0;
  bool sealed_ = false;
  int32_t slab_shift_ = 0;
  int64_t slabs_count_ = 0;
  mutable std::mutex mutex_;
  std::vector<char*> free_;  // guarded by mutex_; taken from the back
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_DEVICE_ARENA_H_
