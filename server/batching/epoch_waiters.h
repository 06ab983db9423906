// Calls that wait until a collection has reached an epoch: to read what was written.
#ifndef NEARFIELD_SERVER_BATCHING_EPOCH_WAITERS_H_
#define NEARFIELD_SERVER_BATCHING_EPOCH_WAITERS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/engine/collection.h"
#include "server/batching/clock.h"
#include "server/batching/search_request.h"

namespace nearfield::server {

struct EpochWait {
  std::shared_ptr<const Collection> collection;
  uint64_t epoch = 0;
  TimePoint deadline;
  CancelFlag cancelled;           // may be null
  std::function<bool()> dropped;  // may be empty; asked while it waits
  // OK: reached. FailedPrecondition: not by the deadline. NotFound: the collection was dropped
  // meanwhile. Cancelled; ResourceExhausted with a retry
  // hint (too many wait); Unavailable (shutting down). Called once, also before Await returns.
  std::function<void(absl::Status)> done;
};

// Thread-safe. One thread looks after a nudge, and every few milliseconds while somebody waits.
class EpochWaiters {
 public:
  // `clock` outlives this.
  EpochWaiters(int64_t waiting_max, const Clock* clock);
  // As Close.
  ~EpochWaiters();

  void Await(EpochWait wait);
  // Whoever waits, now and later, is told Unavailable. Does not wait.
  void Close();
  // A collection has changed. Does not wait.
  void Nudge();
  int64_t waiting() const;

 private:
  void Run();
  // Moves the wait to those that wait, or says why not.
  absl::Status Take(EpochWait* wait);
  // Those that are over. Requires mutex_.
  std::vector<EpochWait> TakeDone();
  absl::Status StatusOf(const EpochWait& wait) const;

  const int64_t waiting_max_;
  const Clock* const clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<EpochWait> waits_;
  bool nudged_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_EPOCH_WAITERS_H_
