#include "client/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr mode_t kMode = 0666;  // less the umask
constexpr char kOpenFiles[] = "/proc/self/fd";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Opens a file that has no name yet. Returns -1 if it could not get one later, or if the file
// system has no such files.
int OpenWithoutName(const std::string& folder) {
  if (access(kOpenFiles, X_OK) != 0) return -1;
  return open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, kMode);
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  if (path == "-") {
    const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return absl::ErrnoToStatus(errno, "cannot write to standard output");
    return OutputFile(path, "", false, fd);
  }
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        Cat(path, ": exists and is no regular file; - writes rows to standard output"));
  }
  std::string partial = Cat(path, ".partial-", getpid());
  int fd = OpenWithoutName(FolderOf(path));
  if (fd >= 0) return OutputFile(path, std::move(partial), false, fd);
  fd = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (fd < 0) return absl::ErrnoToStatus(errno, Cat("cannot create ", partial));
  return OutputFile(path, std::move(partial), true, fd);
}

OutputFile::OutputFile(std::string path, std::string partial, bool has_name, int fd)
    : path_(std::move(path)), partial_(std::move(partial)), has_name_(has_name), fd_(fd) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::exchange(other.partial_, "")),
      has_name_(std::exchange(other.has_name_, false)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      bytes_(other.bytes_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (has_name_) unlink(partial_.c_str());
}

absl::Status OutputFile::Failed(int error) const {
  return absl::ErrnoToStatus(error,
                             Cat("cannot write ", path_ == "-" ? "to standard output" : path_));
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
  if (!partial_.empty() && fsync(fd_) != 0) return Failed(errno);
  return absl::OkStatus();
}

absl::Status OutputFile::Publish() {
  if (partial_.empty()) return absl::OkStatus();
  if (!has_name_) {
    unlink(partial_.c_str());  // of an earlier process with the same number
    const int linked = linkat(AT_FDCWD, Cat(kOpenFiles, "/", fd_).c_str(), AT_FDCWD,
                              partial_.c_str(), AT_SYMLINK_FOLLOW);
    if (linked != 0) return Failed(errno);
    has_name_ = true;
  }
  if (rename(partial_.c_str(), path_.c_str()) != 0) return Failed(errno);
  partial_.clear();
  has_name_ = false;
  const int folder = open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return Failed(errno);
  const int synced = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  return synced == 0 ? absl::OkStatus() : Failed(synced);
}

}  // namespace nearfield::client
