// MappedFile: a file mapped for reading. Pages are read when they are first accessed, and the
// system may drop them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/formats/named_bytes.h"

namespace nearfield::client {

// Requires: no other process truncates the file in the meantime. Access to a page after the new end
// would end the process (SIGBUS).
class MappedFile {
 public:
  // Opens a file. A pipe, or "-" for standard input, is read to its end and kept in a temporary
  // file (spool.h). Errors, each with the path: NotFound, PermissionDenied, InvalidArgument
  // (neither a regular file nor a pipe), ResourceExhausted (no room for the temporary file).
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Releases the pages of the first `end` bytes, which will not be read again soon. A later access
  // reads them again. A smaller `end` than before, such as 0, begins a second reading.
  void Forget(uint64_t end);

  NamedBytes bytes() const { return {.name = path_, .bytes = {data_, size_}}; }

 private:
  MappedFile(std::string path, const char* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const char* data_;  // null if size_ is 0
  size_t size_;
  size_t forgotten_ = 0;
};

}  // namespace nearfield::client
