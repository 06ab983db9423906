// Converts CUDA errors to statuses, and remembers the error that lost the device.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"

namespace nearfield::gpu {

// Every CUDA call of the engine goes through Check. After any error except lack of memory during
// setup, nothing on the device can be trusted (such errors are sticky in CUDA itself): every later
// Check fails. Thread safety: thread-safe.
class DeviceHealth {
 public:
  explicit DeviceHealth(int device) : device_(device) {}

  // Returns OK; ResourceExhausted (out of memory during setup; the device remains usable); or
  // Unavailable (the device is lost). `call` names the CUDA function. It must outlive the engine:
  // pass a literal.
  absl::Status Check(cudaError_t error, const char* call);

  // Ends the setup: nothing is allocated afterwards. If a later call runs out of memory, its part
  // of already enqueued work is missing, so the device counts as lost.
  void EndSetup() { setup_.store(false, std::memory_order_release); }

  // Returns OK, or the Unavailable error that lost the device.
  absl::Status status() const;

 private:
  const int device_;
  std::atomic<bool> setup_{true};
  std::atomic<bool> lost_{false};
  mutable Mutex mutex_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // set once
};

}  // namespace nearfield::gpu
