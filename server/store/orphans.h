// Orphans: segment files that the catalog does not name, at a start.
//
// An upload that the end of its process interrupted leaves a file that was never sealed. It was
// never committed, and is removed. A sealed file may have been committed: its commit was next when
// the process died, or a later commit removed it and the process died before the unlink, or the
// catalog lost the commit. It is moved to lost/ in the data directory, and only an operator
// removes it there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/segment_format.h"
#include "server/store/store_core.h"

namespace nearfield::store {

inline constexpr char kLostName[] = "lost";

struct Orphan {
  std::string name;
  int64_t segment = 0;
  int64_t bytes = 0;
  std::optional<SegmentInfo> info;  // nullopt: the header is damaged

  // Returns whether the file was never committed. A segment is sealed and synced before its commit.
  bool unfinished() const { return bytes == 0 || (info.has_value() && !info->stage.sealed); }
};

// Lists the orphans; changes nothing. Requires: core.segments is complete, and the catalog was
// not started. Errors: DataLoss (the catalog is older than a segment, or there is no high-water
// mark but there are segments that the catalog does not name), FailedPrecondition (a segment of
// another store, or one that a newer build wrote), I/O errors.
absl::StatusOr<std::vector<Orphan>> FindOrphans(const StoreCore& core)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex);

// Removes the orphans or moves them to lost/. Fills core->orphans. Errors: I/O errors.
absl::Status ClearOrphans(const std::vector<Orphan>& orphans, StoreCore* core)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core->mutex);

}  // namespace nearfield::store
