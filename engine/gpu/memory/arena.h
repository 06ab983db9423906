// Memory of an engine, allocated once at creation: a workspace of fixed parts, followed by slabs of
// one size that are taken and returned. It is device memory, from the only cudaMalloc in the tree,
// or host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/gpu/memory/slab_pieces.h"
#include "engine/gpu/runtime/device_health.h"

namespace nearfield::gpu {

// Returns log2 of the slab size of an arena of `bytes`: 2 MiB, the device's own page size, or less
// if few of these would fit.
constexpr int32_t SlabShift(int64_t bytes) { return bytes >= (int64_t{1} << 30) ? 21 : 18; }

class Arena {
 public:
  Arena() = default;
  ~Arena();

  struct Sizes {
    int64_t workspace_bytes = 0;
    int64_t slab_bytes = 0;  // for all slabs together; rounded down to whole slabs
  };
  // Allocates device memory. Call either this or CreateOnHost, once. Errors: ResourceExhausted (not
  // enough memory), FailedPrecondition (already created).
  absl::Status Create(DeviceHealth& health, const Sizes& sizes);

  // Allocates page-locked host memory, for slabs only. Kernels read and write it over the link.
  absl::Status CreateOnHost(DeviceHealth& health, int64_t bytes);

  // Returns the next `bytes` of the workspace, 256-byte aligned. Requires: before Seal. Errors:
  // FailedPrecondition (sealed), ResourceExhausted (the workspace was sized too small).
  absl::StatusOr<char*> TakeWorkspace(int64_t bytes);

  // Closes the workspace: afterwards the arena hands out slabs only.
  void Seal();

  // Returns `count` slabs, lowest addresses first, or none. Errors: ResourceExhausted (with the
  // needed and the free bytes). Thread safety: this and all functions below are thread-safe.
  absl::StatusOr<std::vector<char*>> TakeSlabs(int64_t count);
  // As TakeSlabs, but the slabs lie one after another. Errors: ResourceExhausted (also if no free
  // slabs of that number do). Cost: sorts the free slabs if count is more than 1.
  absl::StatusOr<std::vector<char*>> TakeAdjacentSlabs(int64_t count);
  void Release(const std::vector<char*>& slabs);
  // Returns a part of a slab of SlabPieces::PieceBytes(bytes), which is not 0, or a new slab
  // divided. Errors: ResourceExhausted.
  absl::StatusOr<char*> TakePiece(int64_t bytes);
  void ReleasePiece(char* piece, int64_t bytes);

  int32_t slab_shift() const { return slab_shift_; }
  int64_t slab_bytes() const { return int64_t{1} << slab_shift_; }
  int64_t bytes_total() const { return slabs_count_ << slab_shift_; }  // of all slabs
  int64_t bytes_used() const;
  // Returns the first slab; all slabs are contiguous.
  const char* slabs_begin() const { return base_ + workspace_bytes_; }

 private:
  absl::Status CheckNew() const;
  void CutSlabs();
  absl::Status NotFree(int64_t count) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool on_host_ = false;
  char* base_ = nullptr;
  int64_t workspace_bytes_ = 0;
  int64_t workspace_used_ = 0;
  bool sealed_ = false;
  int32_t slab_shift_ = 0;
  int64_t slabs_count_ = 0;
  mutable Mutex mutex_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);  // taken from the back
  SlabPieces pieces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::gpu
