// Ring of pinned host buffers, each with the same amount of device memory and an event that signals
// when it may be reused. It moves bytes to the slabs and back without disturbing searches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/gpu/memory/arena.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/gpu/runtime/device_health.h"

namespace nearfield::gpu {

class StagingRing {
 public:
  struct Shape {
    int buffers_count = 0;
    int64_t buffer_bytes = 0;
  };

  StagingRing() = default;

  // Call once. The device memory is part of the arena's workspace: buffers_count * buffer_bytes.
  absl::Status Create(DeviceHealth& health, Arena& arena, const Shape& shape);

  int64_t buffer_bytes() const { return buffer_bytes_; }

  // Exclusive use of a free buffer and of the ring's stream: there is one holder at a time, and
  // others wait for it. End it with Submit or Finish; after an error, just destroy it.
  class Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    char* host() const { return host_; }
    char* device() const { return device_; }
    cudaStream_t stream() const { return ring_->stream_.get(); }

    // Frees the buffer for reuse after the enqueued work is done. Does not wait for that work.
    absl::Status Submit();
    // Blocks until all work ever enqueued on the ring is done. The host side stays readable until
    // the lease ends.
    absl::Status Finish();

   private:
    friend class StagingRing;
    Lease(StagingRing& ring, cudaEvent_t done, char* host, char* device)
        : ring_(&ring), done_(done), host_(host), device_(device) {}

    StagingRing* ring_;
    bool active_ = true;  // false: submitted, or moved from
    cudaEvent_t done_;
    char* host_;
    char* device_;
  };
  absl::StatusOr<Lease> Acquire();

 private:
  struct Buffer {
    PinnedMemory host;
    char* device = nullptr;
    Event done;
  };

  // Lets the next caller of Acquire continue.
  void EndLease();

  DeviceHealth* health_ = nullptr;
  int64_t buffer_bytes_ = 0;
  Stream stream_;
  std::vector<Buffer> buffers_;
  Mutex mutex_;
  CondVar lease_ended_;
  bool leased_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace nearfield::gpu
