#include "client/keys/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace nearfield {
namespace {

absl::Status Refused(const std::string& path, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

absl::Status CannotRead(const std::string& path) {
  return Refused(path, absl::StrCat("cannot be read: ", std::generic_category().message(errno)));
}

// Reads until the end of the file, or until `text` is full. Returns false after an error.
bool ReadAll(int fd, std::string* text) {
  size_t filled = 0;
  while (filled < text->size()) {
    const ssize_t count = read(fd, text->data() + filled, text->size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  text->resize(filled);
  return true;
}

absl::StatusOr<RegularFile> ReadOpen(int fd, const std::string& path, size_t bytes_max) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return CannotRead(path);
  if (!S_ISREG(info.st_mode)) return Refused(path, "is not a regular file");
  if (info.st_nlink == 0) {
    return Refused(
        path,
        "was replaced, and this process still sees the old file: mount the folder of the "
        "file, not the file itself");
  }
  RegularFile file = {.text = std::string(bytes_max + 1, '\0'), .mode = info.st_mode & 07777};
  if (!ReadAll(fd, &file.text)) return CannotRead(path);
  if (file.text.size() > bytes_max) {
    return Refused(path, absl::StrCat("has more than ", bytes_max, " bytes, the limit"));
  }
  return file;
}

}  // namespace

absl::StatusOr<RegularFile> ReadRegularFile(const std::string& path, size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENOENT) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  if (fd < 0) return CannotRead(path);
  absl::StatusOr<RegularFile> file = ReadOpen(fd, path, bytes_max);
  close(fd);
  return file;
}

}  // namespace nearfield
