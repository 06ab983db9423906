// A mutex, its lock and its condition variable, annotated for clang's thread-safety analysis:
// members marked ABSL_GUARDED_BY and functions marked ABSL_EXCLUSIVE_LOCKS_REQUIRED are checked by
// the lint stage (-Wthread-safety). They wrap std::mutex, which ThreadSanitizer instruments.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace nearfield {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Locks the mutex unless another thread holds it. Returns true if the caller holds it now.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex from construction to destruction, except between Unlock() and Lock().
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  // Takes over a mutex that TryLock() has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t adopt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      : lock_(mutex.mutex_, adopt) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Requires: the mutex is held.
  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  // Requires: Unlock() was called.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// Waits may return without a notification, so callers test their condition in a loop. A loop,
// unlike a predicate, is inside the function that the analysis sees holding the mutex.
class CondVar {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  // Releases the lock while it waits.
  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // Returns false if `deadline` passed first.
  template <typename Clock, typename Duration>
  bool WaitUntil(MutexLock& lock, std::chrono::time_point<Clock, Duration> deadline) {
    return condition_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }
  // Returns false if `time` passed first.
  template <typename Rep, typename Period>
  bool WaitFor(MutexLock& lock, std::chrono::duration<Rep, Period> time) {
    return condition_.wait_for(lock.lock_, time) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace nearfield
