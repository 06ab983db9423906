// Pinned host buffers in a ring, each with as much device memory beside it and an event that says
// when it may be used again: how bytes travel to the slabs and back without disturbing searches.
#ifndef NEARFIELD_ENGINE_GPU_DEVICE_STAGING_RING_H_
#define NEARFIELD_ENGINE_GPU_DEVICE_STAGING_RING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/gpu/device/arena.h"
#include "engine/gpu/device/cuda_handles.h"
#include "engine/gpu/device/device_health.h"

namespace nearfield::gpu {

class StagingRing {
 public:
  struct Shape {
    int buffers_count = 0;
    int64_t buffer_bytes = 0;
  };

  StagingRing() = default;
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Once. The device side comes from the arena's workspace: buffers_count * buffer_bytes.
  absl::Status Create(DeviceHealth& health, Arena& arena, const Shape& shape);

  int64_t buffer_bytes() const { return buffer_bytes_; }

  // A buffer that nobody uses, and the ring's stream with it: one holder at a time, others wait for
  // it. End with Submit or Finish; after an error just let go.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    char* host() const { return host_; }
    char* device() const { return device_; }
    cudaStream_t stream() const { return ring_->stream_.get(); }

    // The buffer is free again once what was enqueued is done; does not wait for it.
    absl::Status Submit();
    // Waits until all that was ever enqueued on the ring is done. The host side stays readable
    // until the lease ends.
    absl::Status Finish();

   private:
    friend class StagingRing;
    StagingRing* ring_ = nullptr;
    std::unique_lock<std::mutex> lock_;
    cudaEvent_t done_ = nullptr;
    char* host_ = nullptr;
    char* device_ = nullptr;
  };
  absl::StatusOr<Lease> Acquire();

 private:
  struct Buffer {
    PinnedMemory host;
    char* device = nullptr;
    Event done;
  };

  DeviceHealth* health_ = nullptr;
  int64_t buffer_bytes_ = 0;
  Stream stream_;
  std::vector<Buffer> buffers_;
  std::mutex mutex_;
  std::size_t next_ = 0;  // guarded by mutex_
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_DEVICE_STAGING_RING_H_
