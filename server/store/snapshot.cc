// Snapshots of a running store, and data directories made from them.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/copy_file.h"
#include "server/store/manifest.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

constexpr int64_t kManifestBytesMax = int64_t{1} << 30;
constexpr char kUnfinishedSuffix[] = ".partial";
constexpr char kCopySuffix[] = ".catalog";  // next to it, while the catalog is copied

ManifestFile Listed(const std::string& name, const FileInfo& info) {
  return {.name = name, .bytes = info.bytes, .sha256 = info.sha256};
}

// Links or copies a file. A committed segment never changes, so a hard link is as good as a copy.
absl::StatusOr<ManifestFile> LinkOrCopy(const Directory& from, const std::string& name,
                                        const Directory& to, const CancelCheck& cancelled) {
  const bool linked = from.LinkTo(name, to).ok();
  ABSL_ASSIGN_OR_RETURN(const FileInfo info, linked ? ReadFile(to, name, cancelled)
                                                    : CopyFile(from, name, {to, name}, cancelled));
  return Listed(name, info);
}

absl::Status WriteManifest(const Directory& directory, const Manifest& manifest) {
  ABSL_ASSIGN_OR_RETURN(const File file,
                        directory.OpenFile(kManifestName, O_WRONLY | O_CREAT | O_EXCL));
  ABSL_RETURN_IF_ERROR(file.WriteAt(0, EncodeManifest(manifest)));
  ABSL_RETURN_IF_ERROR(file.SyncData());
  return directory.Sync();
}

absl::StatusOr<Manifest> ReadManifest(const Directory& directory) {
  ABSL_ASSIGN_OR_RETURN(const File file, directory.OpenFile(kManifestName, O_RDONLY));
  ABSL_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  if (size > kManifestBytesMax) {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": ", size, " bytes, must be at most ", kManifestBytesMax));
  }
  std::string text(static_cast<size_t>(size), '\0');
  ABSL_RETURN_IF_ERROR(
      file.ReadAt(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size())));
  return ParseManifest(text, file.path());
}

// Removes the state of the running store from the copied catalog: open uploads, whose files are
// not in the snapshot, and the incarnation, because commits after a restore reuse the numbers of
// later epochs for other rows.
absl::Status ForgetRunningState(const std::string& dir) {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> directory, Directory::Open(dir));
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<MetadataDb> copy,
                        MetadataDb::Open(directory, MetadataDb::Options{}));
  ABSL_RETURN_IF_ERROR(copy->Start());
  Transaction transaction;
  for (const int64_t id : copy->tables().uploads.open()) transaction.Remove<UploadRow>(id);
  if (!transaction.empty()) {
    ABSL_RETURN_IF_ERROR(copy->Commit(std::move(transaction), {.kind = CommitKind::kEndUpload}));
  }
  ABSL_RETURN_IF_ERROR(copy->ForgetIncarnation());
  return copy->Close();
}

using SegmentList = std::vector<std::shared_ptr<CommittedSegment>>;

// Copies the current catalog to a file, page by page. Returns its segments. Holds the store's mutex
// for some pages at a time, so that commits do not wait for the whole; the copy gets them, too.
absl::StatusOr<SegmentList> CopyPages(StoreCore* core, const std::string& path,
                                      const CancelCheck& cancelled) {
  constexpr int kPagesMax = 256;  // 1 MiB
  MutexLock lock(core->mutex);
  ABSL_ASSIGN_OR_RETURN(const auto copy, core->catalog->StartCopy(path));
  for (;;) {
    ABSL_ASSIGN_OR_RETURN(const bool complete, copy->Step(kPagesMax));
    if (complete) break;
    lock.Unlock();
    // The mutex is not fair: without a pause, a waiting commit seldom gets it.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const bool stop = cancelled && cancelled();
    lock.Lock();
    if (stop) return absl::CancelledError("cancelled");
  }
  SegmentList segments;
  for (const auto& [id, segment] : core->segments) segments.push_back(segment);
  return segments;
}

// Copies the current catalog. Uses a separate directory `dir` next to the snapshot's, because
// SQLite may have ignored a failed sync of the directory in which it worked.
absl::StatusOr<SegmentList> CopyCatalog(StoreCore* core, const std::string& dir,
                                        const CancelCheck& cancelled, const Directory& target,
                                        ManifestFile* listed) {
  ABSL_RETURN_IF_ERROR(RemoveDirectory(dir));  // left by a failed snapshot
  ABSL_RETURN_IF_ERROR(MakeDirectory(dir));
  const std::string pages = absl::StrCat(dir, "/pages");
  ABSL_ASSIGN_OR_RETURN(SegmentList segments, CopyPages(core, pages, cancelled));
  {
    // Free pages stay out, because they hold deleted values.
    ABSL_ASSIGN_OR_RETURN(const auto copied, Database::Open(pages, Database::Mode::kExisting));
    ABSL_RETURN_IF_ERROR(
        copied->Run("VACUUM INTO CAST(? AS TEXT)", {Value(absl::StrCat(dir, "/", kCatalogName))}));
    ABSL_RETURN_IF_ERROR(copied->Close());
  }
  if (::unlink(pages.c_str()) != 0) return SystemError(errno, "unlink", pages);
  ABSL_RETURN_IF_ERROR(ForgetRunningState(dir));
  {
    ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> source, Directory::Open(dir));
    ABSL_ASSIGN_OR_RETURN(const FileInfo info,
                          CopyFile(*source, kCatalogName, {target, kCatalogName}));
    *listed = Listed(kCatalogName, info);
  }
  ABSL_RETURN_IF_ERROR(RemoveDirectory(dir));
  return segments;
}

absl::Status WriteSnapshot(StoreCore* core, const std::string& path,
                           const SnapshotOptions& options) {
  ABSL_RETURN_IF_ERROR(RemoveDirectory(path));  // left by a failed snapshot
  ABSL_RETURN_IF_ERROR(MakeDirectory(path));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> directory, Directory::Open(path));
  Manifest manifest = {.owner = options.owner, .files = std::vector<ManifestFile>(1)};
  ABSL_ASSIGN_OR_RETURN(
      const auto segments,
      CopyCatalog(core, path + kCopySuffix, options.cancelled, *directory, manifest.files.data()));
  for (const std::shared_ptr<CommittedSegment>& segment : segments) {
    ABSL_ASSIGN_OR_RETURN(ManifestFile file, LinkOrCopy(segment->directory(), segment->name(),
                                                        *directory, options.cancelled));
    manifest.files.push_back(std::move(file));
  }
  return WriteManifest(*directory, manifest);
}

absl::Status CopyVerified(const Directory& from, const Directory& to) {
  ABSL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(from));
  for (const ManifestFile& listed : manifest.files) {
    ABSL_ASSIGN_OR_RETURN(const FileInfo found, CopyFile(from, listed.name, {to, listed.name}));
    if (found.bytes != listed.bytes || found.sha256 != listed.sha256) {
      return absl::DataLossError(
          absl::StrCat(from.PathOf(listed.name), ": differs from the snapshot's manifest"));
    }
  }
  return to.Sync();
}

SnapshotInfo InfoOf(const Directory& directory, const std::string& name) {
  SnapshotInfo info = {.name = name};
  const absl::StatusOr<Manifest> manifest = ReadManifest(directory);
  info.state = manifest.status();
  if (!manifest.ok()) return info;
  info.owner = manifest->owner;
  info.files = static_cast<int64_t>(manifest->files.size());
  for (const ManifestFile& file : manifest->files) info.bytes += file.bytes;
  struct stat written = {};
  if (::stat(directory.PathOf(kManifestName).c_str(), &written) == 0) {
    info.created_unix_s = written.st_mtime;
  }
  return info;
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

absl::Status RestoreInto(const Directory& source, const std::string& fresh) {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> target, Directory::Open(fresh));
  ABSL_RETURN_IF_ERROR(CatchOutOfMemory([&] { return CopyVerified(source, *target); }));
  absl::Status fatal;
  StoreOptions options = {.dir = fresh};
  options.on_fatal = [&fatal](const absl::Status& status) { fatal = status; };
  {
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Store> restored, Store::Open(options));
    ABSL_RETURN_IF_ERROR(restored->Verify().status());
  }
  return fatal;
}

std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

bool IsUnfinishedSnapshot(const std::string& name) {
  return absl::EndsWith(name, kUnfinishedSuffix) ||
         absl::EndsWith(name, absl::StrCat(kUnfinishedSuffix, kCopySuffix));
}

absl::Status Store::Snapshot(const std::string& path, const SnapshotOptions& options) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    {
      const MutexLock lock(core_->mutex);
      if (!core_->damaged.empty()) return core_->damaged.begin()->second;
    }
    if (Exists(path)) return absl::AlreadyExistsError(absl::StrCat(path, ": exists already"));
    // Open the parent before the rename, because after the rename only the sync may fail.
    ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> parent,
                          Directory::OpenOrMake(ParentOf(path)));
    const std::string partial = path + kUnfinishedSuffix;
    absl::Status written =
        CatchOutOfMemory([&] { return WriteSnapshot(core_.get(), partial, options); });
    if (!written.ok()) {
      RemoveDirectory(partial).IgnoreError();
      RemoveDirectory(partial + kCopySuffix).IgnoreError();
      return written;
    }
    ABSL_RETURN_IF_ERROR(RenameDirectory(partial, path));
    return parent->Sync();
  });
}

absl::StatusOr<std::vector<SnapshotInfo>> Store::ListSnapshots(const std::string& dir) {
  std::vector<SnapshotInfo> snapshots;
  const absl::StatusOr<std::shared_ptr<const Directory>> parent = Directory::Open(dir);
  if (absl::IsNotFound(parent.status())) return snapshots;
  ABSL_RETURN_IF_ERROR(parent.status());
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, (*parent)->Names());
  for (const std::string& name : names) {
    if (IsUnfinishedSnapshot(name) || IsDeletedSnapshot(name)) continue;
    const std::string path = (*parent)->PathOf(name);
    const auto directory = Directory::Open(path);
    if (!directory.ok() || !(*directory)->Has(kManifestName)) continue;
    SnapshotInfo info = InfoOf(**directory, name);
    // Not damaged but deleted meanwhile: a deletion renames a snapshot before it removes its files.
    if (!info.state.ok() && !Exists(path)) continue;
    snapshots.push_back(std::move(info));
  }
  return snapshots;
}

absl::Status Store::Restore(const std::string& from, const std::string& to) {
  if (Exists(to)) return absl::AlreadyExistsError(absl::StrCat(to, ": exists already"));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> source, Directory::Open(from));
  // Keeps DeleteSnapshot away. A file system without locks, or a read-only one, is read without it.
  if (absl::IsFailedPrecondition(source->LockShared())) {
    return absl::FailedPreconditionError(absl::StrCat(from, ": the snapshot is being deleted"));
  }
  const std::string name = WithoutTrailingSlashes(to);
  const std::string fresh = name + ".restoring";
  ABSL_RETURN_IF_ERROR(RemoveDirectory(fresh));  // left by an interrupted restore
  ABSL_RETURN_IF_ERROR(MakeDirectory(fresh));
  if (absl::Status restored = RestoreInto(*source, fresh); !restored.ok()) {
    RemoveDirectory(fresh).IgnoreError();
    return restored;
  }
  ABSL_RETURN_IF_ERROR(RenameDirectory(fresh, name));
  return SyncParent(name);
}

}  // namespace nearfield::store
