// PinnedSnapshotCache: pinned earlier epochs of collections, for later pages and for at_epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/collection.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// A stream's hold on an epoch. While it exists, the epoch does not expire. The epoch may still be
// dropped to free its memory.
using EpochHold = std::shared_ptr<const void>;

// Has a quota of epochs for each caller, a limit on all epochs and a limit on bytes.
// At epochs_total_max, a new epoch replaces the oldest one that no stream holds of the caller with
// the most epochs. If all epochs together pin more than bytes_max, the caller whose epochs pin the
// most loses its least recently used one; epochs that no stream holds go first. One thread drops
// expired epochs.
// Thread-safe.
class PinnedSnapshotCache {
 public:
  struct Options {
    std::chrono::milliseconds keep{60'000};  // lifetime of an epoch after its last use
    int64_t epochs_max = 64;                 // limit for one caller
    int64_t epochs_total_max = 1024;         // limit for all callers; bounds the cost of a scan
    // Limit on the bytes that all kept epochs pin in addition to the current states of their
    // collections.
    HeldBytes bytes_max = {.device = std::numeric_limits<int64_t>::max(),
                           .host = std::numeric_limits<int64_t>::max(),
                           .host_rows = std::numeric_limits<int64_t>::max()};
  };
  // `clock` outlives this object.
  PinnedSnapshotCache(const Options& options, const Clock* clock);
  ~PinnedSnapshotCache();

  // Keeps a state for the caller, or renews it if the caller has it already. If the caller has
  // epochs_max others, drops its least recently used one. `hold` (may be null) receives a hold on
  // the state.
  // Errors: ResourceExhausted with a retry hint (streams hold all epochs of the caller, or all of
  // all callers at epochs_total_max).
  absl::Status Keep(const std::string& caller, const std::shared_ptr<const Collection>& collection,
                    std::shared_ptr<const PinnedEpoch> at, EpochHold* hold = nullptr);
  // Returns the collection's state at `epoch`, kept for any caller, and renews it if it is kept for
  // `caller`: no caller can prolong what another one has kept, at the cost of its quota. Returns
  // null if `epoch` is neither kept nor current.
  std::shared_ptr<const PinnedEpoch> Find(const std::string& caller,
                                          const std::shared_ptr<const Collection>& collection,
                                          uint64_t epoch);
  // Drops all epochs of a collection. Called when it is dropped.
  void Forget(const Collection* collection);
  void DropExpired();
  // Drops epochs until the rest pins at most bytes_max. Called after a collection has changed.
  void Trim();
  // Returns the bytes that all kept epochs pin in addition to the current states, and their limit.
  HeldBytes bytes();
  const HeldBytes& bytes_max() const { return options_.bytes_max; }
  // Returns the number of kept epochs, and its limit. Each commit looks at all of them.
  int64_t epochs_count();
  int64_t epochs_total_max() const { return options_.epochs_total_max; }

 private:
  struct Entry {
    std::string caller;
    std::weak_ptr<const Collection> collection;
    std::shared_ptr<const PinnedEpoch> at;
    TimePoint expires;
    std::weak_ptr<const void> hold;

    bool IsOf(const Collection* of, uint64_t epoch) const {
      return at->epoch() == epoch && collection.lock().get() == of;
    }
  };
  using Entries = std::list<Entry>;
  using Candidates = std::vector<Entries::iterator>;

  // Dropped entries move to `forgotten`. The caller destroys them without the lock, because they
  // may be the last references to rows.
  absl::Status MakeRoom(const std::string& caller, Entries* forgotten)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the entry to drop at epochs_total_max; end() if streams hold all of them.
  Entries::iterator OldestOfMost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TrimLocked(Entries* forgotten) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Candidates All() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the bytes that the entries pin together.
  static HeldBytes BytesOf(const Candidates& entries);
  // Returns the entry to drop next if all together pin too much; end() if none pins anything.
  Entries::iterator Victim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Entries::iterator entry, Entries* forgotten) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    forgotten->splice(forgotten->end(), entries_, entry);
  }
  void Run();

  const Options options_;
  const Clock* const clock_;
  Mutex mutex_;
  CondVar wake_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nearfield::server
