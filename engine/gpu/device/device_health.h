// Turns CUDA errors into statuses and remembers the one that lost the device.
#ifndef NEARFIELD_ENGINE_GPU_DEVICE_DEVICE_HEALTH_H_
#define NEARFIELD_ENGINE_GPU_DEVICE_DEVICE_HEALTH_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>

#include "absl/status/status.h"

namespace nearfield::gpu {

// Every CUDA call of the engine goes through Check. After an error that is not plain lack of memory
// during setup nothing on the device can be trusted (such errors are sticky in CUDA itself): from
// then on every Check fails. Thread-safe.
class DeviceHealth {
 public:
  explicit DeviceHealth(int device) : device_(device) {}
  DeviceHealth(const DeviceHealth&) = delete;
  DeviceHealth& operator=(const DeviceHealth&) = delete;

  // OK; ResourceExhausted (out of memory during setup, the device lives on); or Unavailable, and
  // the device is lost. `call` names the CUDA function and must outlive the engine: a literal.
  absl::Status Check(cudaError_t error, const char* call);

  // From here on nothing is allocated, and a call that lacks memory has left work undone behind
  // work already enqueued: that loses the device too.
  void EndSetup() { setup_.store(false, std::memory_order_release); }

  // OK, or the Unavailable that lost the device.
  absl::Status status() const;

 private:
  const int device_;
  std::atomic<bool> setup_{true};
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  absl::Status why_;  // guarded by mutex_; set once
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_DEVICE_DEVICE_HEALTH_H_
