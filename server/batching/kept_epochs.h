// Earlier states of collections that pages may still ask for.
#ifndef NEARFIELD_SERVER_BATCHING_KEPT_EPOCHS_H_
#define NEARFIELD_SERVER_BATCHING_KEPT_EPOCHS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/engine/collection.h"
#include "server/batching/clock.h"

namespace nearfield::server {

// While somebody has one, its epoch does not expire. It may still be given up for its memory.
using EpochHold = std::shared_ptr<const void>;

// Thread-safe. Each caller has a number of epochs of its own. Where all callers together have as
// many as there may be, a new one takes the place of the oldest that no stream holds, of the caller
// with the most. All of them together pin a bounded part of the memory for rows: beyond it the
// caller whose epochs pin the most loses the one it did not ask for longest, first those that no
// stream holds. One thread gives up what nobody asked for in time.
class KeptEpochs {
 public:
  struct Options {
    std::chrono::milliseconds keep{60'000};  // after an epoch was last asked for
    int64_t epochs_max = 64;                 // of one caller
    int64_t epochs_total_max = 1024;         // of all callers; bounds the cost of a look
    // What kept epochs may hold together beyond the current states of their collections.
    HeldBytes bytes_max = {.device = std::numeric_limits<int64_t>::max(),
                           .host = std::numeric_limits<int64_t>::max(),
                           .host_rows = std::numeric_limits<int64_t>::max()};
  };
  // `clock` outlives this.
  KeptEpochs(const Options& options, const Clock* clock);
  ~KeptEpochs();

  // Keeps a state for the caller, anew where it has it already. Where the caller has epochs_max
  // others, the one that it did not ask for longest goes. `hold` (may be null): gets a hold on it.
  // Errors: ResourceExhausted with a retry hint (streams hold all of the caller's epochs, or all
  // of all callers' where there may be no more).
  absl::Status Keep(const std::string& caller, const std::shared_ptr<const Collection>& collection,
                    std::shared_ptr<const PinnedEpoch> at, EpochHold* hold = nullptr);
  // The state of the collection at `epoch`, whoever has it kept; null where it is neither kept nor
  // the current one.
  std::shared_ptr<const PinnedEpoch> Find(const std::shared_ptr<const Collection>& collection,
                                          uint64_t epoch);
  // Gives up all of a collection that was dropped.
  void Forget(const Collection* collection);
  void DropExpired();
  // Gives up what pins more than bytes_max: after a change of a collection.
  void Trim();

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
  using Choice = std::vector<Entries::iterator>;

  // All of these require mutex_. What is given up goes to `forgotten`, to be destroyed without the
  // lock: it may be the last hold on rows.
  absl::Status MakeRoom(const std::string& caller, Entries* forgotten);
  // The entry to give up where there are epochs_total_max; end() where streams hold all of them.
  Entries::iterator OldestOfMost();
  void TrimLocked(Entries* forgotten);
  // What the entries pin together.
  static HeldBytes BytesOf(const Choice& entries);
  // The entry to give up next, where all pin too much; end() where none pins anything.
  Entries::iterator Victim();
  void GiveUp(Entries::iterator entry, Entries* forgotten) {
    forgotten->splice(forgotten->end(), entries_, entry);
  }
  void Run();

  const Options options_;
  const Clock* const clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Entries entries_;  // the latest asked for first
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_KEPT_EPOCHS_H_
