#include "client/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "client/cpp/status_macros.h"
#include "client/formats/spool.h"

namespace nearfield::client {

namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { Reset(-1); }

  int get() const { return fd_; }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

int OpenToRead(const std::string& path) {
  return path == kStandardInput ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                : open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  Descriptor file(OpenToRead(path));
  if (file.get() < 0) return absl::ErrnoToStatus(errno, Cat("cannot open ", path));
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, Cat("cannot read ", path));
  const bool pipe = S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || isatty(file.get()) != 0;
  if (!S_ISREG(info.st_mode) && !pipe) {
    return absl::InvalidArgumentError(Cat(path, ": neither a regular file nor a pipe"));
  }
  // Another program may have read the beginning of a file on standard input.
  if (pipe || lseek(file.get(), 0, SEEK_CUR) > 0) {
    NF_ASSIGN_OR_RETURN(const int spooled, Spool(file.get(), path));
    file.Reset(spooled);
    if (fstat(spooled, &info) != 0) return absl::ErrnoToStatus(errno, Cat("cannot read ", path));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, Cat("cannot map ", path));
  madvise(data, size, MADV_SEQUENTIAL);  // only a hint: ignore failure
  return MappedFile(path, static_cast<const char*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      forgotten_(std::exchange(other.forgotten_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(forgotten_, other.forgotten_);
  return *this;
}

void MappedFile::Forget(uint64_t end) {
  constexpr size_t kStepBytes = size_t{16}
                                << 20;  // a multiple of any page size; avoids a call for each block
  const size_t until = std::min<size_t>(end, size_) / kStepBytes * kStepBytes;
  if (until <= forgotten_) {
    forgotten_ = until;
    return;
  }
  madvise(const_cast<char*>(data_) + forgotten_, until - forgotten_, MADV_DONTNEED);
  forgotten_ = until;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace nearfield::client
