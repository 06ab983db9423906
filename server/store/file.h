// System calls on files and directories, with results as absl::Status and names in every message.
#pragma once

#include <fcntl.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nearfield::store {

// Returns the status for a failed call: ResourceExhausted (no space on the disk, no descriptor or
// no memory), NotFound, AlreadyExists, FailedPrecondition (permissions, a read-only or wrong kind
// of file), else Internal: an I/O error.
absl::Status SystemError(int error, std::string_view call, std::string_view path);
// As SystemError, for calls that open or read: DataLoss instead of Internal.
absl::Status ReadError(int error, std::string_view call, std::string_view path);
// As SystemError, for calls that change or sync an open file or directory: ResourceExhausted or
// Internal.
absl::Status WriteError(int error, std::string_view call, std::string_view path);

// An open file, and its path for messages. The destructor closes it.
class File {
 public:
  File() = default;
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~File() { Close(); }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  void Close();

  absl::StatusOr<int64_t> Size() const;
  // Reads all of `bytes`. Errors: DataLoss (the file ends before, or cannot be read).
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const;
  // Writes all of `parts`, one after another. Changes `parts`.
  absl::Status WriteParts(int64_t offset, absl::Span<iovec> parts) const;
  absl::Status WriteAt(int64_t offset, std::string_view bytes) const;
  absl::Status WriteAt(int64_t offset, absl::Span<const uint8_t> bytes) const;
  // Reserves disk space past the end without changing the size. If the file system cannot do this,
  // returns OK and reserves nothing.
  absl::Status Reserve(int64_t offset, int64_t bytes) const;
  absl::Status Truncate(int64_t size) const;
  // Makes the data and the size durable. After an error nothing may be retried on this file,
  // because the kernel may have dropped the data that it could not write.
  absl::Status SyncData() const;
  // Hints to the kernel: begin to write these bytes; these bytes are read next.
  void StartWriteback(int64_t offset, int64_t bytes) const;
  void WillRead(int64_t offset, int64_t bytes) const;

 private:
  int fd_ = -1;
  std::string path_;
};

// An open directory. Files in it are opened relative to its descriptor.
class Directory {
 public:
  // Errors: NotFound, FailedPrecondition.
  static absl::StatusOr<std::shared_ptr<const Directory>> Open(const std::string& path);
  // Makes the directory, if it does not exist, as MakeDirectory does, and opens it.
  static absl::StatusOr<std::shared_ptr<const Directory>> OpenOrMake(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::string PathOf(std::string_view name) const;

  // Opens a file. Adds O_CLOEXEC and O_NOFOLLOW to the `flags` of open(2). New files get mode 0600.
  absl::StatusOr<File> OpenFile(const std::string& name, int flags) const;
  bool Has(const std::string& name) const;
  // Returns the names of all entries except "." and "..", in order.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // Removes a file. OK if it does not exist.
  absl::Status Remove(const std::string& name) const;
  absl::Status Rename(const std::string& from, const std::string& to) const;
  // Moves a file of this directory into another one of the same file system.
  absl::Status MoveTo(const std::string& name, const Directory& to, const std::string& as) const;
  // Makes a hard link, in another directory, to a file of this one.
  absl::Status LinkTo(const std::string& name, const Directory& to) const;
  // Makes new, renamed and removed names durable.
  absl::Status Sync() const;
  // Locks the directory until it is closed: for this process alone, or shared by readers. Errors:
  // FailedPrecondition (another process holds a lock that excludes this one).
  absl::Status Lock() const;
  absl::Status LockShared() const;
  absl::StatusOr<int64_t> FreeBytes() const;
  // Returns the disk space of a file, including reserved space; 0 if it does not exist.
  int64_t AllocatedBytes(const std::string& name) const;

 private:
  explicit Directory(File file) : file_(std::move(file)) {}
  absl::Status LockAs(int operation) const;  // of flock(2)

  File file_;
};

// Makes a new directory, and makes its name durable. Errors: AlreadyExists.
absl::Status MakeDirectory(const std::string& path);
// Makes the missing directories above `path`, each as MakeDirectory does.
absl::Status MakeParents(const std::string& path);
// Removes a directory and the files in it; directories in it are an error. OK if it does not exist.
absl::Status RemoveDirectory(const std::string& path);
// Renames a directory within its parent. Errors: AlreadyExists (`to` is not empty).
absl::Status RenameDirectory(const std::string& from, const std::string& to);
// Returns the parent directory of `path`: "." for a name without a directory.
std::string ParentOf(const std::string& path);
// Makes the names in the parent of `path` durable.
absl::Status SyncParent(const std::string& path);

}  // namespace nearfield::store
