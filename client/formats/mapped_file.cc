#include "client/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"

namespace nearfield::client {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer; the check below refuses it.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, Cat("cannot open ", path));
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return absl::ErrnoToStatus(error, Cat("cannot read ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(
        Cat(path, ": not a regular file; its size must be known, so save a pipe to a file first"));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    close(fd);
    return MappedFile(path, nullptr, 0);
  }
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(error, Cat("cannot map ", path));
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
  if (until <= forgotten_) return;
  madvise(const_cast<char*>(data_) + forgotten_, until - forgotten_, MADV_DONTNEED);
  forgotten_ = until;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace nearfield::client
