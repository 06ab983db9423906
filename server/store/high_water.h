// How many transactions were ever acknowledged, beside the catalogue.
//
// SQLite cannot tell a damaged log from one that ends early: it would open without the last commits
// and say nothing. The mark can: a catalogue that knows of fewer commits has lost some. The mark is
// written after each commit and not synced, so it is never ahead of a catalogue that is whole;
// where a power loss takes the mark back, only this one check is weaker.
#ifndef NEARFIELD_SERVER_STORE_HIGH_WATER_H_
#define NEARFIELD_SERVER_STORE_HIGH_WATER_H_

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
  // Returns null where there is no mark. One that is damaged counts as never written.
  static absl::StatusOr<std::unique_ptr<HighWater>> Open(const Directory& directory);
  // Makes an empty mark; its name is not synced yet.
  static absl::StatusOr<std::unique_ptr<HighWater>> Create(const Directory& directory);

  int64_t commits() const { return commits_; }
  // OK where the disk is full, too: the commit stands, and the mark is only as old as it was.
  absl::Status Raise(int64_t commits);

 private:
  HighWater(File file, int64_t commits) : file_(std::move(file)), commits_(commits) {}

  const File file_;
  int64_t commits_;
};

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_HIGH_WATER_H_
