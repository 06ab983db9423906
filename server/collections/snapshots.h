// Snapshots of the store, by name, in one directory that the operator sets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/collections/principal_quotas.h"
#include "server/store/store.h"

namespace nearfield::server {

using store::SnapshotInfo;

struct SnapshotPlace {
  store::Store* store = nullptr;  // null: nothing is stored, so no snapshot can be made
  std::string dir;                // created if it does not exist; empty: no snapshot can be made
  int64_t snapshots_max = 0;      // in `dir`
  PrincipalQuotas* quotas = nullptr;  // of their owners; null: there are none
};

// Checks that `name` is a valid collection name, and not a name of an unfinished snapshot. So it is
// never a path. Errors: InvalidArgument.
absl::Status ValidateSnapshotName(std::string_view name);

// Copies the current state into the directory `name` of the place while the server runs.
// options.owner: the principal for which the snapshot counts. Requires: one caller at a time.
// Errors: InvalidArgument (name), FailedPrecondition (no store, no dir), AlreadyExists,
// ResourceExhausted (snapshots_max, the owner's quota, disk full), Cancelled.
absl::StatusOr<SnapshotInfo> CreateSnapshot(const SnapshotPlace& place, const std::string& name,
                                            const store::SnapshotOptions& options);

// Deletes the snapshot `name` of the place, durably. Returns what it was. Requires: as
// CreateSnapshot, with which it shares the one caller.
// Errors: InvalidArgument (name), FailedPrecondition (no dir; a restore reads the snapshot),
// NotFound, and those of store::Store::DeleteSnapshot.
absl::StatusOr<SnapshotInfo> DeleteSnapshot(const SnapshotPlace& place, const std::string& name);

// Ordered by name. Errors: FailedPrecondition (no dir).
absl::StatusOr<std::vector<SnapshotInfo>> ListSnapshots(const SnapshotPlace& place);

}  // namespace nearfield::server
