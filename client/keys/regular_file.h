// ReadRegularFile: reads a small file that names who may call, such as a key file or a certificate.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace nearfield {

struct RegularFile {
  std::string text;
  mode_t mode = 0;  // its permissions
};

// Reads the whole file. Never waits for a writer: a FIFO, a device or a socket is refused. Also
// refuses a file that has no name any more: if a container mounts a single file, and the file is
// replaced by a rename, the container keeps the old file, and would read the old content for ever.
// Errors: NotFound, InvalidArgument (not a regular file, replaced, more than `bytes_max` bytes,
// cannot be read); names the file.
absl::StatusOr<RegularFile> ReadRegularFile(const std::string& path, size_t bytes_max);

}  // namespace nearfield
