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
  *last = free_.size() == 1;
  return Lend();
}

PinnedLease PinnedPool::TryTake() {
  const MutexLock lock(mutex_);
  return free_.empty() ? nullptr : Lend();
}

PinnedLease PinnedPool::Lend() {
  const PinnedMemory* const block = free_.back();
  free_.pop_back();
  return {block, [this](const PinnedMemory* lent) { GiveBack(lent); }};
}

void PinnedPool::GiveBack(const PinnedMemory* block) {
  const MutexLock lock(mutex_);
  free_.push_back(block);
  given_back_.NotifyOne();
}

}  // namespace nearfield::gpu
