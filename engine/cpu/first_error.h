// FirstError: keeps the first error of threads that work together.
#pragma once

#include <atomic>
#include <utility>

#include "absl/status/status.h"

namespace nearfield::cpu {

class FirstError {
 public:
  // Keeps `status` if it is the first error. Returns true if it is OK. Call from any thread.
  bool Check(absl::Status status) {
    if (status.ok()) return true;
    if (!set_.exchange(true, std::memory_order_relaxed)) status_ = std::move(status);
    return false;
  }
  // Requires: all threads are done.
  const absl::Status& status() const { return status_; }

 private:
  std::atomic<bool> set_{false};
  absl::Status status_;
};

}  // namespace nearfield::cpu
