#include "server/store/orphans.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::store {
namespace {

absl::StatusOr<Orphan> Inspect(const StoreCore& core, const std::string& name, int64_t segment)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  ABSL_ASSIGN_OR_RETURN(const File file, core.directory->OpenFile(name, O_RDONLY));
  Orphan orphan = {.name = name, .segment = segment};
  ABSL_ASSIGN_OR_RETURN(orphan.bytes, file.Size());
  SegmentHeaderBytes header = {};
  if (file.ReadAt(0, absl::MakeSpan(header)).ok()) {
    ABSL_RETURN_IF_ERROR(CheckSegmentVersion(absl::MakeConstSpan(header), file.path()));
    orphan.info = ParseSegmentHeader(absl::MakeConstSpan(header));
  }
  if (orphan.info.has_value() && orphan.info->store != core.catalog->store_id()) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.path(), ": a segment of another store; move it away"));
  }
  return orphan;
}

absl::StatusOr<std::vector<Orphan>> List(const StoreCore& core)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, core.directory->Names());
  std::vector<Orphan> orphans;
  for (const std::string& name : names) {
    const std::optional<int64_t> segment = SegmentOfFileName(name);
    if (!segment.has_value() || core.segments.count(*segment) > 0) continue;
    const UploadRow* const upload = core.catalog->tables().Find<UploadRow>(*segment);
    if (upload != nullptr && upload->state == UploadState::kOpen) continue;
    ABSL_ASSIGN_OR_RETURN(Orphan orphan, Inspect(core, name, *segment));
    orphans.push_back(std::move(orphan));
  }
  return orphans;
}

// Refuses a catalog that lost commits that the orphan knows of.
absl::Status CheckCatalogIsCurrent(const StoreCore& core, const Orphan& orphan)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  constexpr const char* kAdvice =
      "put back the files of one moment together, or restore a snapshot";
  const MetadataDb& catalog = *core.catalog;
  if (orphan.info.has_value() && orphan.info->stage.commits > catalog.commits_count()) {
    return absl::DataLossError(absl::StrCat(
        core.directory->PathOf(kCatalogName), ": ends at commit ", catalog.commits_count(),
        ", but the segment ", orphan.name, " was made after commit ", orphan.info->stage.commits,
        ": the catalog is an older copy or lost its log; ", kAdvice));
  }
  if (!catalog.high_water_found() && !orphan.unfinished()) {
    return absl::DataLossError(absl::StrCat(
        core.directory->PathOf(kHighWaterName), ": is missing, and the catalog does not name ",
        orphan.name, ": it may be an older copy; ", kAdvice, ", or move the segment away"));
  }
  return absl::OkStatus();
}

// Returns an unused name in lost/. A number may have been assigned again.
std::string FreeName(const Directory& lost, const std::string& name) {
  std::string free = name;
  for (int copy = 2; lost.Has(free); ++copy) free = absl::StrCat(name, ".", copy);
  return free;
}

absl::Status SetAside(const StoreCore& core, const Orphan& orphan, OrphanReport* report) {
  const auto lost = Directory::OpenOrMake(core.directory->PathOf(kLostName));
  absl::Status moved = lost.status();
  std::string name;
  if (moved.ok()) {
    name = FreeName(**lost, orphan.name);
    moved = core.directory->MoveTo(orphan.name, **lost, name);
  }
  if (absl::IsResourceExhausted(moved)) {
    report->left.push_back({.path = core.directory->PathOf(orphan.name), .bytes = orphan.bytes});
    return absl::OkStatus();
  }
  ABSL_RETURN_IF_ERROR(moved);
  report->set_aside.push_back({.path = (*lost)->PathOf(name), .bytes = orphan.bytes});
  return (*lost)->Sync();
}

absl::Status CountLost(const StoreCore& core, OrphanReport* report) {
  if (!core.directory->Has(kLostName)) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(const auto lost, Directory::Open(core.directory->PathOf(kLostName)));
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, lost->Names());
  for (const std::string& name : names) {
    const absl::StatusOr<File> file = lost->OpenFile(name, O_RDONLY);
    report->lost_count += 1;
    if (file.ok()) report->lost_bytes += file->Size().value_or(0);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Orphan>> FindOrphans(const StoreCore& core) {
  ABSL_ASSIGN_OR_RETURN(std::vector<Orphan> orphans, List(core));
  for (const Orphan& orphan : orphans) {
    ABSL_RETURN_IF_ERROR(CheckCatalogIsCurrent(core, orphan));
  }
  return orphans;
}

absl::Status ClearOrphans(const std::vector<Orphan>& orphans, StoreCore* core) {
  OrphanReport report;
  for (const Orphan& orphan : orphans) {
    core->catalog->SkipId(orphan.segment);
    if (orphan.unfinished()) {
      ABSL_RETURN_IF_ERROR(core->directory->Remove(orphan.name));
      report.unfinished_count += 1;
      report.unfinished_bytes += orphan.bytes;
    } else {
      ABSL_RETURN_IF_ERROR(SetAside(*core, orphan, &report));
    }
  }
  // The removal of the names must be durable before their numbers are assigned again.
  if (!orphans.empty()) ABSL_RETURN_IF_ERROR(core->directory->Sync());
  ABSL_RETURN_IF_ERROR(CountLost(*core, &report));
  core->orphans = std::move(report);
  return absl::OkStatus();
}

}  // namespace nearfield::store
