// A file mapped for reading: its pages are read as they are touched, and the system may drop them
// again.
#ifndef NEARFIELD_CLIENT_FORMATS_MAPPED_FILE_H_
#define NEARFIELD_CLIENT_FORMATS_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/formats/named_bytes.h"

namespace nearfield::client {

// Requires that nobody shortens the file meanwhile: pages cut off a mapped file end the process
// (SIGBUS).
class MappedFile {
 public:
  // Errors, each naming the path: NotFound, PermissionDenied; InvalidArgument where it is no
  // regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Says that the first `end` bytes will not be read again soon: their pages leave the process, and
  // are read anew if they are.
  void Forget(uint64_t end);

  NamedBytes bytes() const { return {.name = path_, .bytes = {data_, size_}}; }

 private:
  MappedFile(std::string path, const char* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const char* data_;  // null where size_ is 0
  size_t size_;
  size_t forgotten_ = 0;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_MAPPED_FILE_H_
