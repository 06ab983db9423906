// OutputFile: a file that gets its name only when it is complete.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::client {

// Has no name until Publish, so that nothing remains of it if the process ends before. If the file
// system cannot do that, it is written under the name PATH.partial-PID in the same directory, and
// removed there if it is destroyed before Publish. The path "-" is standard output, which has no
// name to get. Errors of all calls: those of the file system, as errno (names the path).
class OutputFile {
 public:
  // Errors: also InvalidArgument (the path names something that is not a regular file).
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Write(std::string_view bytes);
  // Writes what is buffered, and syncs the file. Call it for all files of a set before the first
  // Publish.
  absl::Status Sync();
  // Gives the file its name, replacing a file of that name, and syncs the directory. Requires:
  // Sync was the last call.
  absl::Status Publish();

  uint64_t bytes() const { return bytes_; }

 private:
  OutputFile(std::string path, std::string partial, bool has_name, int fd);
  absl::Status Flush();
  absl::Status Failed(int error) const;

  std::string path_;
  std::string partial_;    // empty: standard output, or the file has its name
  bool has_name_ = false;  // partial_ exists
  int fd_ = -1;            // -1: moved from, or closed
  std::string buffer_;
  uint64_t bytes_ = 0;
};

}  // namespace nearfield::client
