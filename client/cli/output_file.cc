#include "client/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr char kOpenFiles[] = "/proc/self/fd";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Opens a file that has no name yet. Returns -1 if it could not get one later, or if the file
// system has no such files.
int OpenWithoutName(const std::string& folder, mode_t mode) {
  if (access(kOpenFiles, X_OK) != 0) return -1;
  return open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
}

absl::Status Exists(const std::string& path) {
  return absl::AlreadyExistsError(
      Cat(path, ": exists, and is not overwritten: name another file, or move it away"));
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path,
                                              const OutputFileOptions& options) {
  struct stat info = {};
  if (!options.replaces) {
    if (path.empty() || path == "-") {
      return absl::InvalidArgumentError(Cat("\"", path, "\", must be the name of a file"));
    }
    if (lstat(path.c_str(), &info) == 0) return Exists(path);
  }
  if (path == "-") {
    const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return absl::ErrnoToStatus(errno, "cannot write to standard output");
    return OutputFile({.path = path, .partial = ""}, false, fd);
  }
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        Cat(path, ": exists and is no regular file; - writes rows to standard output"));
  }
  Place place = {
      .path = path, .partial = Cat(path, ".partial-", getpid()), .replaces = options.replaces};
  int fd = OpenWithoutName(FolderOf(path), options.mode);
  if (fd >= 0) return OutputFile(std::move(place), false, fd);
  unlink(place.partial.c_str());  // of an earlier process with the same number
  fd = open(place.partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, options.mode);
  if (fd < 0) return absl::ErrnoToStatus(errno, Cat("cannot create ", place.partial));
  return OutputFile(std::move(place), true, fd);
}

OutputFile::OutputFile(Place place, bool has_name, int fd)
    : place_(std::move(place)), has_name_(has_name), fd_(fd) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : place_(std::exchange(other.place_, {})),
      has_name_(std::exchange(other.has_name_, false)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      bytes_(other.bytes_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (has_name_) unlink(place_.partial.c_str());
}

absl::Status OutputFile::Failed(int error) const {
  return absl::ErrnoToStatus(
      error, Cat("cannot write ", place_.path == "-" ? "to standard output" : place_.path));
}

absl::Status OutputFile::Write(std::string_view bytes) {
  buffer_.append(bytes);
  bytes_ += bytes.size();
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t written = write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(errno);
    done += static_cast<size_t>(written);
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  NF_RETURN_IF_ERROR(Flush());
  if (!place_.partial.empty() && fsync(fd_) != 0) return Failed(errno);
  return absl::OkStatus();
}

bool OutputFile::Name(const std::string& from) {
  const std::string& to = place_.path;
  if (place_.replaces) return rename(from.c_str(), to.c_str()) == 0;
  if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) != 0) return false;
  if (has_name_) unlink(from.c_str());
  return true;
}

absl::Status OutputFile::Publish() {
  if (place_.partial.empty()) return absl::OkStatus();
  std::string from = place_.partial;
  if (!has_name_) {
    from = Cat(kOpenFiles, "/", fd_);
    if (place_.replaces) {
      unlink(place_.partial.c_str());  // of an earlier process with the same number
      const int linked =
          linkat(AT_FDCWD, from.c_str(), AT_FDCWD, place_.partial.c_str(), AT_SYMLINK_FOLLOW);
      if (linked != 0) return Failed(errno);
      from = place_.partial;
      has_name_ = true;
    }
  }
  if (!Name(from)) return errno == EEXIST ? Exists(place_.path) : Failed(errno);
  place_.partial.clear();
  has_name_ = false;
  return SyncFolder();
}

absl::Status OutputFile::SyncFolder() const {
  const int folder = open(FolderOf(place_.path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Failed(errno);
  const int synced = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  return synced == 0 ? absl::OkStatus() : Failed(synced);
}

}  // namespace nearfield::client
