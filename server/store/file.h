// System calls on files and directories, with absl::Status and names in every message.
#ifndef NEARFIELD_SERVER_STORE_FILE_H_
#define NEARFIELD_SERVER_STORE_FILE_H_

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

// What a failed call means: ResourceExhausted (no room on the disk, no descriptor or no memory),
// NotFound, AlreadyExists, FailedPrecondition (permissions, a read-only or wrong kind of file),
// else Internal: an I/O error.
absl::Status SystemError(int error, std::string_view call, std::string_view path);
// The same for calls that open or read. DataLoss instead of Internal: nothing was changed.
absl::Status ReadError(int error, std::string_view call, std::string_view path);
// The same for calls that change or sync an open file or directory: ResourceExhausted or Internal.
absl::Status WriteError(int error, std::string_view call, std::string_view path);

// An open file and the path it is named by in messages. Closed at its end.
class File {
 public:
  File() = default;
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~File() { Close(); }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  void Close();

  absl::StatusOr<int64_t> Size() const;
  // All of `bytes`. Errors: DataLoss (the file ends before, or cannot be read).
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const;
  // All of `parts`, one after another; changes `parts`.
  absl::Status WriteAt(int64_t offset, absl::Span<iovec> parts) const;
  // Reserves room on the disk past the end without changing the size. Where the file system cannot:
  // OK, and nothing is reserved.
  absl::Status Reserve(int64_t offset, int64_t bytes) const;
  absl::Status Truncate(int64_t size) const;
  // Data, and the size, are on the disk when this returns OK. After an error nothing may be retried
  // on this file: the kernel may have dropped what it could not write.
  absl::Status SyncData() const;
  // Hints, without promise: begin to write; these bytes are read next; they are not read again.
  void StartWriteback(int64_t offset, int64_t bytes) const;
  void WillRead(int64_t offset, int64_t bytes) const;

 private:
  int fd_ = -1;
  std::string path_;
};

// An open directory; files in it are reached relative to its descriptor.
class Directory {
 public:
  // Errors: NotFound, FailedPrecondition.
  static absl::StatusOr<std::shared_ptr<const Directory>> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::string PathOf(std::string_view name) const;

  // `flags`: of open(2); O_CLOEXEC and O_NOFOLLOW are added, new files get mode 0600.
  absl::StatusOr<File> OpenFile(const std::string& name, int flags) const;
  bool Has(const std::string& name) const;
  // Names of everything in it but "." and "..", in order.
  absl::StatusOr<std::vector<std::string>> Names() const;
  // OK where it was not there.
  absl::Status Remove(const std::string& name) const;
  absl::Status Rename(const std::string& from, const std::string& to) const;
  // Moves a file of this directory into another one of the same file system.
  absl::Status MoveTo(const std::string& name, const Directory& to, const std::string& as) const;
  // A second name, in another directory, for a file of this one.
  absl::Status LinkTo(const std::string& name, const Directory& to) const;
  // Names made, renamed and removed are on the disk when this returns OK.
  absl::Status Sync() const;
  // For one process at a time, until the directory is closed. Errors: FailedPrecondition.
  absl::Status Lock() const;
  absl::StatusOr<int64_t> FreeBytes() const;
  // What a file takes on the disk, reserved room included; 0 where it is not there.
  int64_t AllocatedBytes(const std::string& name) const;

 private:
  explicit Directory(File file) : file_(std::move(file)) {}

  File file_;
};

// Makes a directory that is not there yet and makes its name durable. Errors: AlreadyExists.
absl::Status MakeDirectory(const std::string& path);
// Removes a directory and the files in it; directories in it are an error. OK if it is not there.
absl::Status RemoveDirectory(const std::string& path);
// Gives a directory another name beside its old one. Errors: AlreadyExists (`to` holds something).
absl::Status RenameDirectory(const std::string& from, const std::string& to);
// Where the name of `path` stands: "." for a name alone.
std::string ParentOf(const std::string& path);
// Makes the names in the parent of `path` durable.
absl::Status SyncParent(const std::string& path);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_FILE_H_
