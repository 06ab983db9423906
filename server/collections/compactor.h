// Compactor: frees the memory and the disk space of deleted rows, in the background and on request.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// The rows and bytes that one compaction freed. The memory is the difference between two readings,
// at least 0; it includes concurrent changes.
struct GivenBack {
  int64_t rows = 0;  // deleted rows in memory
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  int64_t stored_rows = 0;  // deleted rows on disk
  int64_t stored_bytes = 0;
};

// Runs one thread, so that only one collection is compacted at a time. After each change it checks
// all collections and compacts those where it is worth the cost. A collection that cannot be
// compacted (no memory for the copy, a full disk) is tried again after the next change.
class Compactor {
 public:
  using Collections = std::function<std::vector<NamedCollectionPtr>()>;
  using Report = std::function<void(const std::string& collection, const absl::Status& status)>;

  // `collections` returns all collections. `report` receives failures of the background compaction.
  // Both must be valid until the destructor returns.
  Compactor(Collections collections, Report report);
  // Waits for the running step: one copy of a part. Requires: no CompactNow waits.
  ~Compactor();

  // Reports a change. Does not block. Thread-safe.
  void Nudge();

  // Frees everything that deleted rows occupy, in memory and on disk, after the compaction that is
  // running. Blocks until that is done. Rows deleted meanwhile may stay. After an error, what was
  // freed stays freed. Thread-safe.
  // Errors: ResourceExhausted (no memory or disk space for the copy), Aborted (the collection was
  // dropped), Cancelled, DataLoss, Unavailable (device lost).
  absl::StatusOr<GivenBack> CompactNow(NamedCollectionPtr named, std::function<bool()> cancelled);

 private:
  struct Order {
    NamedCollectionPtr named;
    std::function<bool()> cancelled;
    bool begun = false;
    bool done = false;
    absl::StatusOr<GivenBack> result = GivenBack{};
  };

  void Run();
  absl::Status CompactAll();
  absl::Status CompactOne(const NamedCollection& named);
  void Serve(Order* order);
  absl::StatusOr<GivenBack> CompactWhole(const Order& order);
  absl::Status CompactMemory(const Order& order, GivenBack* given);
  absl::Status CompactDisk(const Order& order, GivenBack* given);
  absl::Status GoOn(const Order& order) const;
  bool ending() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns true if the pass over all collections must stop, because an order waits.
  bool Interrupted() ABSL_LOCKS_EXCLUDED(mutex_);

  const Collections collections_;
  const Report report_;
  mutable Mutex mutex_;
  CondVar wake_;
  CondVar served_;
  bool nudged_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Not begun; each belongs to its CompactNow.
  std::deque<Order*> orders_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace nearfield::server
