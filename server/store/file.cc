#include "server/store/file.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::store {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Drops the first `bytes` of `parts`.
void Advance(absl::Span<iovec>* parts, size_t bytes) {
  while (!parts->empty() && bytes >= parts->front().iov_len) {
    bytes -= parts->front().iov_len;
    parts->remove_prefix(1);
  }
  if (parts->empty()) return;
  parts->front().iov_base = static_cast<char*>(parts->front().iov_base) + bytes;
  parts->front().iov_len -= bytes;
}

}  // namespace

absl::Status SystemError(int error, std::string_view call, std::string_view path) {
  const std::string message =
      absl::StrCat(View(path), ": ", View(call), ": ", std::system_category().message(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return absl::ResourceExhaustedError(message);
    case ENOENT: return absl::NotFoundError(message);
    case EEXIST:
    case ENOTEMPTY: return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case EISDIR:
    case ELOOP: return absl::FailedPreconditionError(message);
    default: return absl::InternalError(message);
  }
}

absl::Status ReadError(int error, std::string_view call, std::string_view path) {
  const absl::Status status = SystemError(error, call, path);
  return absl::IsInternal(status) ? absl::DataLossError(status.message()) : status;
}

absl::Status WriteError(int error, std::string_view call, std::string_view path) {
  const absl::Status status = SystemError(error, call, path);
  return absl::IsResourceExhausted(status) ? status : absl::InternalError(status.message());
}

void File::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

absl::StatusOr<int64_t> File::Size() const {
  struct stat facts = {};
  if (::fstat(fd_, &facts) != 0) return ReadError(errno, "fstat", path_);
  return static_cast<int64_t>(facts.st_size);
}

absl::Status File::ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError(errno, "read", path_);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset, ", but ",
                                              bytes.size(), " more bytes belong there"));
    }
    bytes.remove_prefix(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

absl::Status File::WriteParts(int64_t offset, absl::Span<iovec> parts) const {
  Advance(&parts, 0);
  while (!parts.empty()) {
    const ssize_t written = ::pwritev(fd_, parts.data(), static_cast<int>(parts.size()), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(errno, "write", path_);
    offset += written;
    Advance(&parts, static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status File::WriteAt(int64_t offset, std::string_view bytes) const {
  // writev takes pointers to mutable bytes but only reads them.
  iovec part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  return WriteParts(offset, absl::MakeSpan(&part, 1));
}

absl::Status File::WriteAt(int64_t offset, absl::Span<const uint8_t> bytes) const {
  return WriteAt(offset, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

absl::Status File::Reserve(int64_t offset, int64_t bytes) const {
  if (bytes <= 0) return absl::OkStatus();
  while (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, offset, bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP) return absl::OkStatus();
    return WriteError(errno, "fallocate", path_);
  }
  return absl::OkStatus();
}

absl::Status File::Truncate(int64_t size) const {
  while (::ftruncate(fd_, size) != 0) {
    if (errno != EINTR) return WriteError(errno, "ftruncate", path_);
  }
  return absl::OkStatus();
}

absl::Status File::SyncData() const {
  // Never retried: a second call may return OK for data that the first one dropped.
  if (::fdatasync(fd_) != 0) return WriteError(errno, "fdatasync", path_);
  return absl::OkStatus();
}

void File::StartWriteback(int64_t offset, int64_t bytes) const {
  ::sync_file_range(fd_, offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void File::WillRead(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(fd_, offset, bytes, POSIX_FADV_WILLNEED);
}

absl::StatusOr<std::shared_ptr<const Directory>> Directory::Open(const std::string& path) {
  std::string name = path;  // allocated first: an open descriptor must not leak
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ReadError(errno, "open", path);
  File file(fd, std::move(name));
  return std::shared_ptr<const Directory>(new Directory(std::move(file)));
}

absl::StatusOr<std::shared_ptr<const Directory>> Directory::OpenOrMake(const std::string& path) {
  const absl::Status made = MakeDirectory(path);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return Open(path);
}

std::string Directory::PathOf(std::string_view name) const {
  return absl::StrCat(path(), "/", View(name));
}

absl::StatusOr<File> Directory::OpenFile(const std::string& name, int flags) const {
  std::string path = PathOf(name);  // allocated first: a new file must not be lost
  const int fd = ::openat(file_.fd(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ReadError(errno, "open", path);
  return File(fd, std::move(path));
}

bool Directory::Has(const std::string& name) const {
  return ::faccessat(file_.fd(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::StatusOr<std::vector<std::string>> Directory::Names() const {
  const int fd = ::openat(file_.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ReadError(errno, "open", path());
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::fdopendir(fd), ::closedir);
  if (opened == nullptr) {
    const int error = errno;
    ::close(fd);
    return ReadError(error, "fdopendir", path());
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry =
             ::readdir(opened.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return ReadError(errno, "readdir", path());
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Directory::Remove(const std::string& name) const {
  if (::unlinkat(file_.fd(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return SystemError(errno, "unlink", PathOf(name));
  }
  return absl::OkStatus();
}

absl::Status Directory::Rename(const std::string& from, const std::string& to) const {
  return MoveTo(from, *this, to);
}

absl::Status Directory::MoveTo(const std::string& name, const Directory& to,
                               const std::string& as) const {
  if (::renameat(file_.fd(), name.c_str(), to.file_.fd(), as.c_str()) != 0) {
    return SystemError(errno, "rename", PathOf(name));
  }
  return absl::OkStatus();
}

absl::Status Directory::LinkTo(const std::string& name, const Directory& to) const {
  if (::linkat(file_.fd(), name.c_str(), to.file_.fd(), name.c_str(), 0) != 0) {
    return SystemError(errno, "link", PathOf(name));
  }
  return absl::OkStatus();
}

absl::Status Directory::Sync() const {
  if (::fsync(file_.fd()) != 0) return WriteError(errno, "fsync", path());
  return absl::OkStatus();
}

absl::Status Directory::Lock() const { return LockAs(LOCK_EX); }
absl::Status Directory::LockShared() const { return LockAs(LOCK_SH); }

absl::Status Directory::LockAs(int operation) const {
  if (::flock(file_.fd(), operation | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return SystemError(errno, "flock", path());
  return absl::FailedPreconditionError(
      absl::StrCat("the directory ", path(), " is in use by this process or another"));
}

absl::StatusOr<int64_t> Directory::FreeBytes() const {
  struct statvfs facts = {};
  if (::fstatvfs(file_.fd(), &facts) != 0) return ReadError(errno, "statvfs", path());
  return static_cast<int64_t>(facts.f_bavail * facts.f_frsize);
}

int64_t Directory::AllocatedBytes(const std::string& name) const {
  constexpr int64_t kStatBlockBytes = 512;  // independent of the file system's block size
  struct stat facts = {};
  if (::fstatat(file_.fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  return int64_t{facts.st_blocks} * kStatBlockBytes;
}

absl::Status MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) return SystemError(errno, "mkdir", path);
  return SyncParent(path);
}

absl::Status MakeParents(const std::string& path) {
  const std::string parent = ParentOf(path);
  if (::access(parent.c_str(), F_OK) == 0) return absl::OkStatus();
  if (errno != ENOENT) return SystemError(errno, "access", parent);
  ABSL_RETURN_IF_ERROR(MakeParents(parent));
  const absl::Status made = MakeDirectory(parent);
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

absl::Status RemoveDirectory(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const Directory>> directory = Directory::Open(path);
  if (absl::IsNotFound(directory.status())) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(directory.status());
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, (*directory)->Names());
  for (const std::string& name : names) ABSL_RETURN_IF_ERROR((*directory)->Remove(name));
  if (::rmdir(path.c_str()) != 0) return SystemError(errno, "rmdir", path);
  return SyncParent(path);
}

absl::Status RenameDirectory(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return SystemError(errno, "rename", from);
  return absl::OkStatus();
}

std::string ParentOf(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = path.find_last_of('/', end);
  if (end == std::string::npos) return "/";
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status SyncParent(const std::string& path) {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> parent,
                        Directory::Open(ParentOf(path)));
  return parent->Sync();
}

}  // namespace nearfield::store
