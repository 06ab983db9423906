// Device: one backend and the state that all its collections share: the host memory budget, host
// threads, and whether the device is lost.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/base/host_work.h"
#include "engine/base/memory_budget.h"
#include "engine/base/mutex.h"

namespace nearfield::corpus {

// Thread-safe. Held by a shared pointer, because generations outlive the engine if a search or a
// collection still holds them.
class Device {
 public:
  Device(std::unique_ptr<backend::Backend> backend, int64_t host_bytes_total);

  backend::Backend& backend() const { return *backend_; }
  MemoryBudget& host() const { return *host_; }
  HostWork& host_work() const { return *host_work_; }

  // Returns OK, or Unavailable forever after the backend has reported it once.
  absl::Status Check() const;

  // Returns `status`, and stores it if it is Unavailable.
  absl::Status Observe(absl::Status status) const;

 private:
  const std::unique_ptr<backend::Backend> backend_;
  const std::shared_ptr<MemoryBudget> host_;
  const std::unique_ptr<HostWork> host_work_;
  mutable Mutex mutex_;
  mutable absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // OK while the device works
};

}  // namespace nearfield::corpus
