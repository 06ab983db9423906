// A folder of audit records: each whole and on the disk before its name appears, bounded in number
// and size.
#ifndef NEARFIELD_SERVER_CATALOG_AUDIT_RECORD_FOLDER_H_
#define NEARFIELD_SERVER_CATALOG_AUDIT_RECORD_FOLDER_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::server {

inline constexpr int64_t kRecordsMax = 100;
inline constexpr int64_t kRecordBytesMax = int64_t{16} << 20;

// Thread-safe.
class RecordFolder {
 public:
  // `path`: made with the first record where its parent has it not; empty: nothing is kept.
  explicit RecordFolder(std::string path) : path_(std::move(path)) {}

  // Returns the record's path. The first records say the most, so a full folder takes no more.
  // Errors: FailedPrecondition (nothing is kept), ResourceExhausted (kRecordsMax, kRecordBytesMax,
  // a full disk), and those of the file system.
  absl::StatusOr<std::string> Write(const std::string& text, int64_t unix_seconds);

  // Records that are there: of this process and of earlier ones. 0 where there is no folder.
  int64_t Count() const;

 private:
  const std::string path_;
  std::mutex mutex_;  // one write at a time
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_AUDIT_RECORD_FOLDER_H_
