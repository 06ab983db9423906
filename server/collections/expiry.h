// Expiry: deletes rows after the time that an attribute of them holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// Deletes at most `rows_max` rows of the collection whose time is at most `now_us` (microseconds
// since 1970), as one epoch. Returns their number; 0 also if the collection declares no attribute
// with which rows expire. Errors: those of a delete, Cancelled.
absl::StatusOr<int64_t> DeleteExpired(const NamedCollection& named, int64_t now_us,
                                      int64_t rows_max, const std::function<bool()>& cancelled);

// Deletes the expired rows of all collections at intervals, on a thread of its own. A collection
// with many gets one epoch for every kStepRows of them, and uploads and other changes go between
// these epochs.
class Expiry {
 public:
  static constexpr int64_t kStepRows = 10'000;

  struct Base {
    std::function<std::vector<NamedCollectionPtr>()> collections;
    int64_t interval_ms = 0;           // 0: nothing expires
    std::function<int64_t()> now_us;   // microseconds since 1970
    std::function<bool()> may_delete;  // polled before each step
    // Called after each step that deleted rows, or failed.
    std::function<void(const std::string& collection, const absl::StatusOr<int64_t>& rows)> report;
  };
  explicit Expiry(Base base);
  ~Expiry();

 private:
  void Run();
  void Sweep();
  bool ending() const;

  const Base base_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace nearfield::server
