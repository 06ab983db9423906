// PinnedPool: a few equal blocks of page-locked host memory, mapped for kernels, that are reserved
// at the start and lent.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/gpu/runtime/device_health.h"

namespace nearfield::gpu {

// A block, for as long as the pointer lives. It keeps the pool alive.
using PinnedLease = std::shared_ptr<const PinnedMemory>;

// Thread-safe.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  // Call once, before any other call.
  absl::Status Create(DeviceHealth& health, int blocks_count, int64_t bytes);

  int64_t block_bytes() const { return block_bytes_; }

  // Returns a free block; blocks while there is none, so a thread must not hold one. Sets *last if
  // no other one is free now: then the caller must return it soon, because the next caller waits
  // for it.
  PinnedLease Take(bool* last);
  // The same, but returns null in place of waiting.
  PinnedLease TryTake(bool* last);

 private:
  PinnedLease Lend(bool* last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(const PinnedMemory* block);

  int64_t block_bytes_ = 0;
  std::vector<PinnedMemory> blocks_;
  Mutex mutex_;
  CondVar given_back_;
  std::vector<const PinnedMemory*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::gpu
