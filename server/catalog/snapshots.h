// Snapshots of the store by name, all in one directory of the operator's.
#ifndef NEARFIELD_SERVER_CATALOG_SNAPSHOTS_H_
#define NEARFIELD_SERVER_CATALOG_SNAPSHOTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace nearfield::server {

using store::SnapshotFacts;

struct SnapshotPlace {
  store::Store* store = nullptr;  // null: nothing is kept, so that there is nothing to copy
  std::string dir;                // made where it is missing; empty: no snapshot can be made
  int64_t snapshots_max = 0;      // in `dir`
};

// OK for what a collection may be called, less the names of snapshots under way: never a path.
// Errors: InvalidArgument.
absl::Status ValidateSnapshotName(std::string_view name);

// Copies the state of now, online, into the directory `name` of the place. For one caller at a
// time. Errors: InvalidArgument (name), FailedPrecondition (no store, no dir), AlreadyExists,
// ResourceExhausted (snapshots_max; the disk is full), Cancelled.
absl::StatusOr<SnapshotFacts> CreateSnapshot(const SnapshotPlace& place, const std::string& name,
                                             const std::function<bool()>& cancelled);

// By name. Errors: FailedPrecondition (no dir).
absl::StatusOr<std::vector<SnapshotFacts>> ListSnapshots(const SnapshotPlace& place);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_SNAPSHOTS_H_
