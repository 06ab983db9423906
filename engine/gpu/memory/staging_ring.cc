#include "engine/gpu/memory/staging_ring.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace nearfield::gpu {

absl::Status StagingRing::Create(DeviceHealth& health, Arena& arena, const Shape& shape) {
  health_ = &health;
  buffer_bytes_ = shape.buffer_bytes;
  ABSL_RETURN_IF_ERROR(stream_.Create(health, Stream::Priority::kLow));
  for (int i = 0; i < shape.buffers_count; ++i) {
    Buffer buffer;
    ABSL_RETURN_IF_ERROR(buffer.host.Create(health, shape.buffer_bytes));
    ABSL_RETURN_IF_ERROR(buffer.done.Create(health));
    ABSL_ASSIGN_OR_RETURN(buffer.device, arena.TakeWorkspace(shape.buffer_bytes));
    buffers_.push_back(std::move(buffer));
  }
  return absl::OkStatus();
}

absl::StatusOr<StagingRing::Lease> StagingRing::Acquire() {
  Lease lease;
  lease.ring_ = this;
  lease.lock_ = std::unique_lock<std::mutex>(mutex_);
  Buffer& buffer = buffers_[next_];
  next_ = (next_ + 1) % buffers_.size();
  lease.done_ = buffer.done.get();
  // An event that was never recorded is complete.
  ABSL_RETURN_IF_ERROR(
      health_->Check(cudaEventSynchronize(buffer.done.get()), "cudaEventSynchronize"));
  lease.host_ = buffer.host.host();
  lease.device_ = buffer.device;
  return lease;
}

// Work may have been enqueued before an error: the buffer stays busy until that work is done.
StagingRing::Lease::~Lease() {
  if (lock_.owns_lock()) {
    ring_->health_->Check(cudaEventRecord(done_, stream()), "cudaEventRecord").IgnoreError();
  }
}

absl::Status StagingRing::Lease::Submit() {
  absl::Status recorded =
      ring_->health_->Check(cudaEventRecord(done_, stream()), "cudaEventRecord");
  lock_.unlock();
  return recorded;
}

absl::Status StagingRing::Lease::Finish() {
  ABSL_RETURN_IF_ERROR(ring_->health_->Check(cudaEventRecord(done_, stream()), "cudaEventRecord"));
  return ring_->health_->Check(cudaEventSynchronize(done_), "cudaEventSynchronize");
}

}  // namespace nearfield::gpu
