// The operations of a lane on snapshots: create, restore, delete, and the check after a death.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/file.h"
#include "tests/fault/crash_lane.h"

namespace nearfield::fault {
namespace {

constexpr size_t kSnapshotsMax = 2;

}  // namespace

std::string CrashLane::SnapshotName(int64_t number) { return absl::StrCat("snapshot-", number); }

std::string CrashLane::SnapshotDir(int64_t number) const {
  return absl::StrCat(options_.root, "/", SnapshotName(number));
}

absl::Status CrashLane::Snapshot() {
  if (log_->snapshots().size() >= kSnapshotsMax) return CheckSnapshot();
  const std::unique_lock gate(*gate_);
  const int64_t number = log_->NextNumber(lane_);
  // A snapshot that was complete but not logged may have the same number, if a failed call kept
  // CheckSnapshots from deleting it.
  ABSL_RETURN_IF_ERROR(Excused(DeleteSnapshot(number)));
  const absl::Status taken =
      Counted([&, path = SnapshotDir(number)] { return store_->Snapshot(path); });
  if (taken.ok()) log_->AddSnapshot(number);
  // If SQLite cannot open its copy for writing, it opens it for reading.
  if (options_.calls_may_fail && absl::IsFailedPrecondition(taken)) return absl::OkStatus();
  return Excused(taken);
}

// Returns the content of a snapshot.
absl::StatusOr<Model> CrashLane::Restore(int64_t number) {
  const std::string restored = options_.root + "/restored";
  ABSL_RETURN_IF_ERROR(store::RemoveDirectory(restored));
  ABSL_RETURN_IF_ERROR(
      Counted([&] { return store::Store::Restore(SnapshotDir(number), restored); }));
  store::StoreOptions options = OptionsFor(restored);
  options.on_fatal = [](const absl::Status&) {};
  absl::StatusOr<Model> found;
  {
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> copy, store::Store::Open(options));
    found = Read(*copy, Model{});
  }
  ABSL_RETURN_IF_ERROR(Excused(store::RemoveDirectory(restored)));
  return found;
}

absl::Status CrashLane::CheckSnapshot() {
  if (log_->snapshots().empty()) return absl::OkStatus();
  const auto [number, hash] = *log_->snapshots().begin();
  const absl::StatusOr<Model> found = Restore(number);
  if (!found.ok()) return Excused(found.status());
  if (HashOf(*found) != hash) return absl::DataLossError("a snapshot holds other rows");
  log_->RemoveSnapshot(number);
  const absl::Status deleted = DeleteSnapshot(number);
  if (deleted.ok()) log_->AcknowledgeDeletion(number);
  return Excused(deleted);
}

absl::Status CrashLane::DeleteSnapshot(int64_t number) {
  const absl::Status deleted =
      Counted([&] { return store::Store::DeleteSnapshot(options_.root, SnapshotName(number)); });
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

absl::Status CrashLane::CheckSnapshots(Findings* findings) {
  const auto finished =
      Counted([&] { return store::Store::FinishSnapshotDeletions(options_.root); });
  if (!finished.ok()) return Excused(finished.status());
  const auto listed = Counted([&] { return store::Store::ListSnapshots(options_.root); });
  if (!listed.ok()) return Excused(listed.status());
  for (const store::SnapshotInfo& info : *listed) {
    const int64_t number = std::stoll(info.name.substr(SnapshotName(0).size() - 1));
    if (log_->deleted_snapshots().contains(number)) {
      findings->Add(&findings->wrong, 1, absl::StrCat(info.name, " is listed again"));
    }
    if (log_->snapshots().contains(number)) continue;  // CheckSnapshot restores it later
    // Its creation or its deletion was in progress.
    const absl::StatusOr<Model> found = Restore(number);
    if (!found.ok() && !Excused(found.status()).ok()) {
      findings->Add(&findings->half, 1, absl::StrCat(info.name, ": ", found.status().ToString()));
    }
    ABSL_RETURN_IF_ERROR(Excused(DeleteSnapshot(number)));
  }
  for (const auto& [number, hash] : log_->snapshots()) {
    const auto same = [&, name = SnapshotName(number)](const auto& info) {
      return info.name == name;
    };
    if (!std::any_of(listed->begin(), listed->end(), same)) {
      findings->Add(&findings->lost, 1, absl::StrCat(SnapshotName(number), " is not listed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace nearfield::fault
