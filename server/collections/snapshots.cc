#include "server/collections/snapshots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/collections/catalog.h"

namespace nearfield::server {
namespace {

absl::Status CheckPlace(const SnapshotPlace& place) {
  if (!place.dir.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this server has no directory for snapshots: its operator sets snapshot_dir");
}

absl::Status AlreadyThere(const std::string& name) {
  return absl::AlreadyExistsError(absl::StrCat("name: a snapshot \"", name, "\" exists already"));
}

std::vector<SnapshotInfo>::const_iterator Find(const std::vector<SnapshotInfo>& snapshots,
                                               const std::string& name) {
  return std::find_if(snapshots.begin(), snapshots.end(),
                      [&name](const SnapshotInfo& info) { return info.name == name; });
}

// Checks that the principal may have another snapshot. Errors: ResourceExhausted.
absl::Status CheckQuota(const SnapshotPlace& place, const std::vector<SnapshotInfo>& snapshots,
                        const std::string& owner) {
  if (owner.empty() || place.quotas == nullptr) return absl::OkStatus();
  const auto owned =
      std::count_if(snapshots.begin(), snapshots.end(),
                    [&owner](const SnapshotInfo& info) { return info.owner == owner; });
  const int64_t limit = place.quotas->LimitOf(owner, Quota::kSnapshots);
  if (limit == 0 || owned < limit) return absl::OkStatus();
  return QuotaExceeded(owner, Quota::kSnapshots, 1, owned, limit);
}

}  // namespace

absl::Status ValidateSnapshotName(std::string_view name) {
  ABSL_RETURN_IF_ERROR(ValidateName("name", name));
  if (!store::IsUnfinishedSnapshot(std::string(name))) return absl::OkStatus();
  return ArgumentError(
      "name",
      absl::StrCat("\"", std::string(name),
                   "\" must not end in .partial or .partial.catalog: so end snapshots under way"),
      std::string(name));
}

absl::StatusOr<SnapshotInfo> CreateSnapshot(const SnapshotPlace& place, const std::string& name,
                                            const store::SnapshotOptions& options) {
  ABSL_RETURN_IF_ERROR(ValidateSnapshotName(name));
  ABSL_RETURN_IF_ERROR(CheckPlace(place));
  if (place.store == nullptr) {
    return absl::FailedPreconditionError(
        "this server keeps nothing on a disk (data_dir is none), so that there is nothing to copy");
  }
  ABSL_ASSIGN_OR_RETURN(const auto before, store::Store::ListSnapshots(place.dir));
  if (Find(before, name) != before.end()) return AlreadyThere(name);
  if (static_cast<int64_t>(before.size()) >= place.snapshots_max) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", before.size(),
                                                     " snapshots, the limit snapshots_max is ",
                                                     place.snapshots_max, ": delete one first"));
  }
  ABSL_RETURN_IF_ERROR(CheckQuota(place, before, options.owner));
  const absl::Status written = place.store->Snapshot(absl::StrCat(place.dir, "/", name), options);
  if (absl::IsAlreadyExists(written)) return AlreadyThere(name);
  ABSL_RETURN_IF_ERROR(written);
  ABSL_ASSIGN_OR_RETURN(const auto after, store::Store::ListSnapshots(place.dir));
  const auto found = Find(after, name);
  if (found != after.end()) return *found;
  return absl::InternalError("the snapshot was removed as soon as it was made");
}

absl::StatusOr<SnapshotInfo> DeleteSnapshot(const SnapshotPlace& place, const std::string& name) {
  ABSL_RETURN_IF_ERROR(ValidateSnapshotName(name));
  ABSL_RETURN_IF_ERROR(CheckPlace(place));
  ABSL_ASSIGN_OR_RETURN(const auto snapshots, store::Store::ListSnapshots(place.dir));
  const auto found = Find(snapshots, name);
  if (found == snapshots.end()) {
    return absl::NotFoundError(absl::StrCat("name: there is no snapshot \"", name, "\""));
  }
  ABSL_RETURN_IF_ERROR(store::Store::DeleteSnapshot(place.dir, name));
  return *found;
}

absl::StatusOr<std::vector<SnapshotInfo>> ListSnapshots(const SnapshotPlace& place) {
  ABSL_RETURN_IF_ERROR(CheckPlace(place));
  return store::Store::ListSnapshots(place.dir);
}

}  // namespace nearfield::server
