// DeviceIdsOnce: the ids of one generation on the device, copied there by the first search that
// needs them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/base/mutex.h"

namespace nearfield::corpus {

struct Generation;

// Thread-safe.
class DeviceIdsOnce {
 public:
  // Returns the ids of `generation`, which owns this object. Requires: uint64 ids. Errors: those of
  // Backend::MakeDeviceIds; then a later call tries again.
  absl::StatusOr<const backend::DeviceIds*> Get(const Generation& generation);

  // Returns the device memory of the ids; 0 before the first Get.
  int64_t device_bytes() const { return device_bytes_.load(std::memory_order_relaxed); }

 private:
  Mutex mutex_;  // held during the copy, so that other searches wait for it
  std::unique_ptr<backend::DeviceIds> ids_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> device_bytes_{0};
};

}  // namespace nearfield::corpus
