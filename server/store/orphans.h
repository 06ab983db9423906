// Segment files that the catalogue does not name, at a start.
//
// An upload that a death interrupted leaves a file that was never sealed: it was never committed,
// and is removed. A sealed file may have been committed: it was about to be when the process died,
// a later commit removed it and the death came before the unlink, or the catalogue lost the commit.
// It is moved to lost/ in the data directory, and only an operator removes it from there.
#ifndef NEARFIELD_SERVER_STORE_ORPHANS_H_
#define NEARFIELD_SERVER_STORE_ORPHANS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  std::optional<SegmentFacts> facts;  // nothing: the header is damaged

  // A segment is sealed and synced before its commit, so this one was never committed.
  bool unfinished() const { return bytes == 0 || (facts.has_value() && !facts->stage.sealed); }
};

// Lists the orphans; changes nothing. Requires core.segments, and that the catalogue was not
// started. Errors: DataLoss (the catalogue is older than a segment, or has no high-water mark
// beside segments that it does not name), FailedPrecondition (a segment of another store, or
// one that a newer build wrote), I/O errors.
absl::StatusOr<std::vector<Orphan>> FindOrphans(const StoreCore& core);

// Removes the orphans or moves them to lost/. Fills core->orphans. Errors: I/O errors.
absl::Status ClearOrphans(const std::vector<Orphan>& orphans, StoreCore* core);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_ORPHANS_H_
