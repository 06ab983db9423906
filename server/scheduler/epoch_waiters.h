// EpochWaiters: calls that wait until a collection reaches an epoch, to read their own writes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/collection.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

struct EpochWait {
  std::shared_ptr<const Collection> collection;
  uint64_t epoch = 0;
  TimePoint deadline;
  CancelFlag cancelled;           // may be null
  std::function<bool()> dropped;  // may be empty; polled while the call waits
  // Called once, possibly before Await returns. OK: the epoch is reached.
  // Errors: FailedPrecondition (not reached by the deadline), NotFound (the collection was
  // dropped), Cancelled, ResourceExhausted with a retry hint (too many calls wait), Unavailable
  // (shutting down).
  std::function<void(absl::Status)> done;
};

// The waiting calls. One thread checks them after each Nudge, and every few milliseconds while
// calls wait.
// Thread-safe.
class EpochWaiters {
 public:
  // `clock` outlives this object.
  EpochWaiters(int64_t waiting_max, const Clock* clock);
  // Calls Close and joins the thread.
  ~EpochWaiters();

  void Await(EpochWait wait);
  // Fails all present and future calls with Unavailable. Does not block.
  void Close();
  // Reports that a collection has changed. Does not block.
  void Nudge();
  int64_t waiting() const;

 private:
  void Run();
  // Adds `wait` to the waiting calls. Errors: Unavailable (closing), ResourceExhausted (too many
  // calls wait).
  absl::Status Take(EpochWait* wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes and returns the calls whose wait has ended.
  std::vector<EpochWait> TakeDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StatusOf(const EpochWait& wait) const;

  const int64_t waiting_max_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<EpochWait> waits_ ABSL_GUARDED_BY(mutex_);
  bool nudged_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nearfield::server
