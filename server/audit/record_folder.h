// RecordFolder: a folder of audit records. Each is completely on disk before its name appears.
// Their number and size are limited.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

inline constexpr int64_t kRecordsMax = 100;
inline constexpr int64_t kRecordBytesMax = int64_t{16} << 20;

// Thread-safe.
class RecordFolder {
 public:
  // `path` is created with the first record if it does not exist. If empty, no records are kept.
  explicit RecordFolder(std::string path) : path_(std::move(path)) {}

  // Writes a record and returns its path. A full folder accepts no more, because the first records
  // are the most useful.
  // Errors: FailedPrecondition (no records are kept), ResourceExhausted (kRecordsMax,
  // kRecordBytesMax, disk full), and those of the file system.
  absl::StatusOr<std::string> Write(const std::string& text, int64_t unix_seconds);

  // Returns the number of records of this and of earlier processes; 0 if the folder does not exist.
  int64_t Count() const;

 private:
  const std::string path_;
  Mutex mutex_;  // serializes writes
};

}  // namespace nearfield::server
