// Earlier states of collections that pages may still ask for.
#ifndef NEARFIELD_SERVER_BATCHING_KEPT_EPOCHS_H_
#define NEARFIELD_SERVER_BATCHING_KEPT_EPOCHS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "nearfield/engine/collection.h"
#include "server/batching/clock.h"

namespace nearfield::server {

// Thread-safe. One thread gives up what nobody asked for in time.
class KeptEpochs {
 public:
  struct Options {
    std::chrono::milliseconds keep{60'000};  // after an epoch was last asked for
    int64_t epochs_max = 64;                 // beyond: the one not asked for longest goes
  };
  // `clock` outlives this.
  KeptEpochs(const Options& options, const Clock* clock);
  ~KeptEpochs();

  void Keep(const std::shared_ptr<const Collection>& collection,
            std::shared_ptr<const PinnedEpoch> at);
  // The state of the collection at `epoch`; null where it is neither kept nor the current one.
  std::shared_ptr<const PinnedEpoch> Find(const std::shared_ptr<const Collection>& collection,
                                          uint64_t epoch);
  // Gives up all of a collection that was dropped.
  void Forget(const Collection* collection);
  void DropExpired();

 private:
  struct Entry {
    std::weak_ptr<const Collection> collection;
    std::shared_ptr<const PinnedEpoch> at;
    TimePoint expires;
  };
  using Entries = std::list<Entry>;

  // Requires mutex_.
  Entries::iterator FindEntry(const Collection* collection, uint64_t epoch);
  void Run();

  const Options options_;
  const Clock* const clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Entries entries_;  // the latest asked for first, so the last expires first
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_KEPT_EPOCHS_H_
