// Owners of CUDA objects: a stream, an event, pinned host memory. Create makes the object, the
// destructor releases it. And CurrentDevice.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "engine/gpu/runtime/device_health.h"

namespace nearfield::gpu {

// Restores the current device of the calling thread when it is destroyed. For calls from a thread
// that uses CUDA itself.
class CurrentDevice {
 public:
  CurrentDevice() : known_(cudaGetDevice(&device_) == cudaSuccess) {}
  ~CurrentDevice() {
    if (known_) cudaSetDevice(device_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int device_ = 0;
  const bool known_;
};

// A stream that does not wait for the legacy default stream.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  enum class Priority { kHigh, kLow };
  // Blocks of a high-priority stream are placed before those of a low-priority one. Call once.
  absl::Status Create(DeviceHealth& health, Priority priority);

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  // Creates an event without timing, for synchronization only. Call once.
  absl::Status Create(DeviceHealth& health);

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Page-locked host memory that the device can also address.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept
      : host_(std::exchange(other.host_, nullptr)), device_(other.device_), bytes_(other.bytes_) {}
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (host_ != nullptr) cudaFreeHost(host_);
  }

  // Call once.
  absl::Status Create(DeviceHealth& health, int64_t bytes);

  char* host() const { return host_; }
  char* device() const { return device_; }  // the same bytes, as kernels address them
  int64_t bytes() const { return bytes_; }

 private:
  char* host_ = nullptr;
  char* device_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace nearfield::gpu
