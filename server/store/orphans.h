// Segment files that the catalogue does not name, at a start.
//
// An upload that a death interrupted leaves a file that was never sealed: it was never committed,
// and is removed. A sealed file may have been committed: it was about to be when the process died,
// a later commit removed it and the death came before the unlink, or the catalogue lost the commit.
// It is moved to lost/ in the data directory, and only an operator removes it from there.
#ifndef NEARFIELD_SERVER_STORE_ORPHANS_H_
#define NEARFIELD_SERVER_STORE_ORPHANS_H_

#include "absl/status/status.h"
#include "server/store/store_core.h"

namespace nearfield::store {

inline constexpr char kLostName[] = "lost";

// Requires core->segments. Fills core->orphans. Errors: DataLoss (the catalogue is older than a
// segment, or has no high-water mark beside segments that it does not name: nothing is moved or
// removed then), FailedPrecondition (a segment of another store), I/O errors.
absl::Status ClearOrphans(StoreCore* core);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_ORPHANS_H_
