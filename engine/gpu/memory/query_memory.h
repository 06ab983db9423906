// QueryMemory: page-locked host memory for queries, in a few blocks that are lent, and as much
// device memory. A caller sends a block while the host prepares the search.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/gpu/memory/pinned_pool.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/gpu/runtime/device_health.h"

namespace nearfield::gpu {

// Thread safety: thread-safe. One thread at a time uses a block that is lent.
class QueryMemory {
 public:
  // Call once, before any other call. device: [blocks_count, block_bytes].
  absl::Status Create(DeviceHealth& health, int blocks_count, int64_t block_bytes, char* device);

  int64_t block_bytes() const { return pool_->block_bytes(); }

  // Returns a free block, or null. It keeps its host memory alive, not the device.
  PinnedLease TryTake();
  // Begins to copy the first `bytes` bytes of the block that begins at `host` to the device.
  // Without effect if they are few, or if `host` is not in this memory. Requires: the device is
  // current.
  absl::Status Send(const void* host, int64_t bytes);
  // Returns where values of a block that was sent are on the device; work that is enqueued on
  // `stream` after this call finds them there. Returns null if they were not sent.
  absl::StatusOr<float*> Sent(const float* values, cudaStream_t stream);

 private:
  struct Block {
    const char* host = nullptr;
    char* device = nullptr;
    bool is_sent = false;
    Event sent;
  };

  Block* BlockOf(const void* host);

  DeviceHealth* health_ = nullptr;
  const std::shared_ptr<PinnedPool> pool_ = std::make_shared<PinnedPool>();
  Stream stream_;
  std::vector<Block> blocks_;
};

}  // namespace nearfield::gpu
