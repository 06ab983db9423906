// Gives back the memory and the disk space of deleted rows: in the background, and when asked.
#ifndef NEARFIELD_SERVER_CATALOG_COMPACTOR_H_
#define NEARFIELD_SERVER_CATALOG_COMPACTOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/catalog/catalog.h"

namespace nearfield::server {

// What one compaction gave back. Memory is the difference of two looks at the collection, never
// below 0: what changed meanwhile is part of it.
struct GivenBack {
  int64_t rows = 0;  // deleted rows, of the memory
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  int64_t stored_rows = 0;  // the same of the disk
  int64_t stored_bytes = 0;
};

// One thread, so that one collection is compacted at a time. It looks at all collections after each
// change of one, and gives back what is worth it. A collection that cannot be compacted (no memory
// for the copy, a full disk) is looked at again after the next change.
class Compactor {
 public:
  using Collections = std::function<std::vector<std::shared_ptr<NamedCollection>>()>;
  using Report = std::function<void(const std::string& collection, const absl::Status& status)>;

  // `collections`: those there are. `report`: called for what failed in the background. Both until
  // the destructor returns.
  Compactor(Collections collections, Report report);
  // Waits for the step under way: one copy of a part. Requires that no CompactNow waits.
  ~Compactor();

  // Something changed. From any thread; does not wait.
  void Nudge();

  // Gives back all that deleted rows take, in memory and on the disk, as soon as the compaction
  // under way is done. Waits for it. Rows deleted meanwhile may stay. From any thread. What was
  // given back before an error stays given back. Errors: ResourceExhausted (no memory or no disk
  // for the copy), Aborted (the collection was dropped), Cancelled, DataLoss, Unavailable (device
  // lost).
  absl::StatusOr<GivenBack> CompactNow(std::shared_ptr<NamedCollection> named,
                                       std::function<bool()> cancelled);

 private:
  struct Order {
    std::shared_ptr<NamedCollection> named;
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
  bool ending() const;
  // Whether the look at all collections ends here: somebody waits for a certain one.
  bool Interrupted();

  const Collections collections_;
  const Report report_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable served_;
  bool nudged_ = false;
  bool ending_ = false;
  std::deque<Order*> orders_;  // not begun; each belongs to its CompactNow
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_COMPACTOR_H_
