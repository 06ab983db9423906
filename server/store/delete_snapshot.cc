// Deletion of snapshots. A snapshot gets a name that no snapshot can have before its first file is
// removed. So after any crash it is complete under its own name, or not listed.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/file.h"
#include "server/store/manifest.h"
#include "server/store/metadata_db.h"
#include "server/store/segment_format.h"
#include "server/store/store.h"

namespace nearfield::store {
namespace {

// Not a suffix: a name of a snapshot never begins with a dot, so no snapshot can have such a name.
constexpr char kDeletedPrefix[] = ".deleted-";

// Removes the files. OK if another process removed them first.
absl::Status RemoveDeleted(const std::string& path) {
  const absl::Status removed = RemoveDirectory(path);
  if (removed.ok() || absl::IsNotFound(removed)) return absl::OkStatus();
  return {removed.code(), absl::StrCat("the snapshot is deleted, but files of it remain until the "
                                       "next start of the server: ",
                                       removed.message())};
}

// Returns true for a directory that holds a manifest, or only files that a snapshot has.
absl::StatusOr<bool> IsRestOfSnapshot(const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::symlink_status(path, error).type();
  if (kind != std::filesystem::file_type::directory) return false;
  ABSL_ASSIGN_OR_RETURN(const auto directory, Directory::Open(path));
  if (directory->Has(kManifestName)) return true;
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, directory->Names());
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name == kCatalogName || SegmentOfFileName(name).has_value();
  });
}

// Checks that `path` is a complete snapshot, and locks it.
absl::StatusOr<std::shared_ptr<const Directory>> LockSnapshot(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is a symbolic link, and only its owner may remove what it names"));
  }
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const Directory> directory, Directory::Open(path));
  if (!directory->Has(kManifestName)) {
    return absl::NotFoundError(absl::StrCat(path, ": holds no ", kManifestName));
  }
  // A file system without locks protects no restore; the restore then fails, and names the file.
  if (absl::IsFailedPrecondition(directory->Lock())) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": another process is restoring it"));
  }
  return directory;
}

}  // namespace

bool IsDeletedSnapshot(const std::string& name) { return absl::StartsWith(name, kDeletedPrefix); }

absl::Status Store::DeleteSnapshot(const std::string& dir, const std::string& name) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> parent, Directory::Open(dir));
    const std::string path = parent->PathOf(name);
    const std::string deleted = parent->PathOf(absl::StrCat(kDeletedPrefix, name));
    ABSL_ASSIGN_OR_RETURN(const auto locked, LockSnapshot(path));
    ABSL_RETURN_IF_ERROR(RemoveDirectory(deleted));  // left by a deletion that failed
    ABSL_RETURN_IF_ERROR(RenameDirectory(path, deleted));
    // Without this sync, a power loss could restore the name without the files.
    ABSL_RETURN_IF_ERROR(parent->Sync());
    return RemoveDeleted(deleted);
  });
}

absl::StatusOr<int64_t> Store::FinishSnapshotDeletions(const std::string& dir,
                                                       std::vector<std::string>* left) {
  int64_t finished = 0;
  const absl::Status status = CatchOutOfMemory([&]() -> absl::Status {
    const absl::StatusOr<std::shared_ptr<const Directory>> parent = Directory::Open(dir);
    if (absl::IsNotFound(parent.status())) return absl::OkStatus();
    ABSL_RETURN_IF_ERROR(parent.status());
    ABSL_ASSIGN_OR_RETURN(std::vector<std::string> names, (*parent)->Names());
    std::erase_if(names, [](const std::string& name) { return !IsDeletedSnapshot(name); });
    if (names.empty()) return absl::OkStatus();
    ABSL_RETURN_IF_ERROR((*parent)->Sync());  // as in DeleteSnapshot
    for (const std::string& name : names) {
      const std::string path = (*parent)->PathOf(name);
      const absl::StatusOr<bool> is_rest = IsRestOfSnapshot(path);
      if (absl::IsNotFound(is_rest.status())) continue;  // another process removed it
      ABSL_RETURN_IF_ERROR(is_rest.status());
      if (!*is_rest) {
        if (left != nullptr) left->push_back(path);
        continue;
      }
      ABSL_RETURN_IF_ERROR(RemoveDeleted(path));
      ++finished;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return finished;
}

}  // namespace nearfield::store
