#include "engine/gpu/memory/query_memory.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {
namespace {

// Kernels read fewer bytes over the link in less time than it takes to enqueue a copy.
constexpr int64_t kSentBytesMin = int64_t{128} << 10;

}  // namespace

absl::Status QueryMemory::Create(DeviceHealth& health, int blocks_count, int64_t block_bytes,
                                 char* device) {
  health_ = &health;
  ABSL_RETURN_IF_ERROR(pool_->Create(health, blocks_count, block_bytes));
  ABSL_RETURN_IF_ERROR(stream_.Create(health, Stream::Priority::kHigh));
  blocks_.resize(static_cast<std::size_t>(blocks_count));
  std::vector<PinnedLease> all;
  for (Block& block : blocks_) {
    bool last = false;
    all.push_back(pool_->TryTake(&last));
    block.host = all.back()->host();
    block.device = device + block_bytes * (&block - blocks_.data());
    ABSL_RETURN_IF_ERROR(block.sent.Create(health));
  }
  return absl::OkStatus();
}

QueryMemory::Block* QueryMemory::BlockOf(const void* host) {
  const auto* const at = static_cast<const char*>(host);
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return std::less_equal<>()(block.host, at) && std::less<>()(at, block.host + block_bytes());
  });
  return found == blocks_.end() ? nullptr : &*found;
}

PinnedLease QueryMemory::TryTake() {
  bool last = false;
  PinnedLease lease = pool_->TryTake(&last);
  if (lease != nullptr) BlockOf(lease->host())->is_sent = false;
  return lease;
}

absl::Status QueryMemory::Send(const void* host, int64_t bytes) {
  Block* const block = BlockOf(host);
  if (block == nullptr || bytes < kSentBytesMin) return absl::OkStatus();
  CHECK_LE(bytes, block_bytes());
  ABSL_RETURN_IF_ERROR(
      health_->Check(cudaMemcpyAsync(block->device, block->host, static_cast<std::size_t>(bytes),
                                     cudaMemcpyHostToDevice, stream_.get()),
                     "copying queries"));
  ABSL_RETURN_IF_ERROR(
      health_->Check(cudaEventRecord(block->sent.get(), stream_.get()), "cudaEventRecord"));
  block->is_sent = true;
  return absl::OkStatus();
}

absl::StatusOr<float*> QueryMemory::Sent(const float* values, cudaStream_t stream) {
  const Block* const block = BlockOf(values);
  if (block == nullptr || !block->is_sent) return nullptr;
  ABSL_RETURN_IF_ERROR(
      health_->Check(cudaStreamWaitEvent(stream, block->sent.get(), 0), "cudaStreamWaitEvent"));
  return reinterpret_cast<float*>(block->device +
                                  (reinterpret_cast<const char*>(values) - block->host));
}

}  // namespace nearfield::gpu
