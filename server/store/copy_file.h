// ReadFile and CopyFile: compute the size and SHA-256 of a file; CopyFile also copies it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/file.h"

namespace nearfield::store {

struct FileInfo {
  int64_t bytes = 0;
  std::string sha256;  // hex
};

// Polled between pieces of a few MiB; true ends the call with Cancelled.
using CancelCheck = std::function<bool()>;

// Reads the whole file and returns its size and digest.
absl::StatusOr<FileInfo> ReadFile(const Directory& directory, const std::string& name,
                                  const CancelCheck& cancelled = nullptr);

struct CopyTarget {
  const Directory& directory;
  std::string name;
};
// Copies a file to the new file `to`, which must not exist. The bytes are on the disk when this
// returns OK; the name is durable after a sync of the directory.
absl::StatusOr<FileInfo> CopyFile(const Directory& from, const std::string& name,
                                  const CopyTarget& to, const CancelCheck& cancelled = nullptr);

}  // namespace nearfield::store
