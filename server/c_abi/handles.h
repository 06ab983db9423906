// Handles: objects by number. A number is never used twice, so a caller that keeps a number too
// long finds nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

// Thread-safe.
template <typename T>
class Handles {
 public:
  // Returns the number of the object, from 1.
  uint64_t Add(std::shared_ptr<T> object) {
    const MutexLock lock(mutex_);
    objects_.emplace(++last_, std::move(object));
    return last_;
  }
  // Returns the object, or null.
  std::shared_ptr<T> Find(uint64_t handle) const {
    const MutexLock lock(mutex_);
    const auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }
  // Removes and returns the object, or returns null.
  std::shared_ptr<T> Take(uint64_t handle) {
    const MutexLock lock(mutex_);
    const auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }

 private:
  mutable Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server
