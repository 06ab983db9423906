#include "engine/gpu/memory/pinned_pool.h"

#include <cstddef>

#include "engine/base/status_macros.h"

namespace nearfield::gpu {

absl::Status PinnedPool::Create(DeviceHealth& health, int blocks_count, int64_t bytes) {
  const MutexLock lock(mutex_);
  block_bytes_ = bytes;
  blocks_ = std::vector<PinnedMemory>(static_cast<std::size_t>(blocks_count));
  for (PinnedMemory& block : blocks_) {
    ABSL_RETURN_IF_ERROR(block.Create(health, bytes));
    free_.push_back(&block);
  }
  return absl::OkStatus();
}

PinnedLease PinnedPool::Take(bool* last) {
  MutexLock lock(mutex_);
  while (free_.empty()) given_back_.Wait(lock);
  return Lend(last);
}

PinnedLease PinnedPool::TryTake(bool* last) {
  const MutexLock lock(mutex_);
  return free_.empty() ? nullptr : Lend(last);
}

PinnedLease PinnedPool::Lend(bool* last) {
  *last = free_.size() == 1;
  const PinnedMemory* const block = free_.back();
  free_.pop_back();
  return {block, [pool = shared_from_this()](const PinnedMemory* lent) { pool->GiveBack(lent); }};
}

void PinnedPool::GiveBack(const PinnedMemory* block) {
  const MutexLock lock(mutex_);
  free_.push_back(block);
  given_back_.NotifyOne();
}

}  // namespace nearfield::gpu
