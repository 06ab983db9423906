// HighWater: a file next to the catalog with the number of acknowledged transactions.
//
// SQLite cannot distinguish a damaged log from one that ends early: it would open without the last
// commits and report nothing. The mark detects this: a catalog with fewer commits has lost some.
// The mark is written after each commit and not synced, so it is never ahead of an intact
// catalog. If a power loss reverts the mark, only this check becomes weaker.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/file.h"

namespace nearfield::store {

inline constexpr char kHighWaterName[] = "high_water";

class HighWater {
 public:
  // Returns null if there is no mark. A damaged mark is treated as one that was never written.
  static absl::StatusOr<std::unique_ptr<HighWater>> Open(const Directory& directory);
  // Makes an empty mark; its name is not synced yet.
  static absl::StatusOr<std::unique_ptr<HighWater>> Create(const Directory& directory);

  int64_t commits() const { return commits_; }
  // Writes the number of commits. Returns OK also if the disk is full: the commit is durable, and
  // only the mark is old.
  absl::Status Raise(int64_t commits);

 private:
  HighWater(File file, int64_t commits) : file_(std::move(file)), commits_(commits) {}

  const File file_;
  int64_t commits_;
};

}  // namespace nearfield::store
