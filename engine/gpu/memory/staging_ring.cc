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
  MutexLock lock(mutex_);
  while (leased_) lease_ended_.Wait(lock);
  leased_ = true;
  Buffer& buffer = buffers_[next_];
  next_ = (next_ + 1) % buffers_.size();
  lock.Unlock();
  Lease lease(*this, buffer.done.get(), buffer.host.host(), buffer.device);
  // An event that was never recorded is complete.
  ABSL_RETURN_IF_ERROR(
      health_->Check(cudaEventSynchronize(buffer.done.get()), "cudaEventSynchronize"));
  return lease;
}

void StagingRing::EndLease() {
  const MutexLock lock(mutex_);
  leased_ = false;
  lease_ended_.NotifyOne();
}

StagingRing::Lease::Lease(Lease&& other) noexcept
    : ring_(other.ring_),
      active_(std::exchange(other.active_, false)),
      done_(other.done_),
      host_(other.host_),
      device_(other.device_) {}

// Work may have been enqueued before an error: the buffer stays busy until that work is done.
StagingRing::Lease::~Lease() {
  if (!active_) return;
  ring_->health_->Check(cudaEventRecord(done_, stream()), "cudaEventRecord").IgnoreError();
  ring_->EndLease();
}

absl::Status StagingRing::Lease::Submit() {
  absl::Status recorded =
      ring_->health_->Check(cudaEventRecord(done_, stream()), "cudaEventRecord");
  active_ = false;
  ring_->EndLease();
  return recorded;
}

absl::Status StagingRing::Lease::Finish() {
  ABSL_RETURN_IF_ERROR(ring_->health_->Check(cudaEventRecord(done_, stream()), "cudaEventRecord"));
  return ring_->health_->Check(cudaEventSynchronize(done_), "cudaEventSynchronize");
}

}  // namespace nearfield::gpu
