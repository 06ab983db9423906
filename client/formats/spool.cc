#include "client/formats/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// Returns the error of a system call on the temporary file.
absl::Status SpoolError(int error, const std::string& path, const std::string& folder) {
  return absl::ErrnoToStatus(
      error, Cat(path, ": the size of a pipe must be known first, so it is copied to ", folder,
                 ", which failed; TMPDIR names another directory"));
}

// Returns 0 or the error.
int WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

absl::Status CopyAll(int from, int to, const std::string& path, const std::string& folder) {
  std::vector<char> chunk(kChunkBytes);
  for (;;) {
    const ssize_t count = read(from, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, Cat("cannot read ", path));
    if (count == 0) return absl::OkStatus();
    const int error = WriteAll(to, chunk.data(), static_cast<size_t>(count));
    if (error != 0) return SpoolError(error, path, folder);
  }
}

}  // namespace

bool IsStandardInput(std::string_view path) {
  return path == kStandardInput || path == "/dev/stdin" || path == "/dev/fd/0" ||
         path == "/proc/self/fd/0";
}

bool IsPipeName(std::string_view path) {
  return IsStandardInput(path) || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

absl::StatusOr<int> Spool(int fd, const std::string& path) {
  std::error_code error;
  const std::string folder = std::filesystem::temp_directory_path(error).string();
  if (error) return SpoolError(error.value(), path, "TMPDIR");
  std::string name = folder + "/nearfield-pipe-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return SpoolError(errno, path, folder);
  unlink(name.c_str());
  const absl::Status copied = CopyAll(fd, file, path, folder);
  if (copied.ok()) return file;
  close(file);
  return copied;
}

}  // namespace nearfield::client
