// OutputFile: a file that gets its name only when it is complete.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::client {

struct OutputFileOptions {
  mode_t mode = 0666;    // less the umask; 0600 for a secret
  bool replaces = true;  // false: the file must not exist yet, and "-" is refused
};

// Has no name until Publish, so that nothing remains of it if the process ends before. If the file
// system cannot do that, it is written under the name PATH.partial-PID in the same directory, and
// removed there if it is destroyed before Publish. The path "-" is standard output, which has no
// name to get. Errors of all calls: those of the file system, as errno (names the path).
class OutputFile {
 public:
  // Errors: also InvalidArgument (the path names something that is not a regular file),
  // AlreadyExists (as for Publish).
  static absl::StatusOr<OutputFile> Create(const std::string& path,
                                           const OutputFileOptions& options = {});
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Write(std::string_view bytes);
  // Writes what is buffered, and syncs the file. Call it for all files of a set before the first
  // Publish.
  absl::Status Sync();
  // Gives the file its name in one step, and syncs the directory. Replaces a file of that name, or
  // leaves it as it is where the options say so. Requires: Sync was the last call. Errors: also
  // AlreadyExists (there is a file of that name, which is not to be replaced).
  absl::Status Publish();

  uint64_t bytes() const { return bytes_; }

 private:
  struct Place {
    std::string path;
    std::string partial;   // empty: standard output, or the file has its name
    bool replaces = true;  // a file of that name
  };
  OutputFile(Place place, bool has_name, int fd);
  absl::Status Flush();
  absl::Status Failed(int error) const;
  // Gives the file at `from` its name. Returns false after an error, which errno has.
  bool Name(const std::string& from);
  absl::Status SyncFolder() const;

  Place place_;
  bool has_name_ = false;  // place_.partial exists
  int fd_ = -1;            // -1: moved from, or closed
  std::string buffer_;
  uint64_t bytes_ = 0;
};

}  // namespace nearfield::client
