// DamagedStore: a small data set whose files are changed. Flips: changes every byte of it, one at a
// time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/fault/crash_model.h"

namespace nearfield::fault {

class DamagedStore {
 public:
  using File = std::pair<std::string, std::string>;  // name, content
  enum class Outcome : uint8_t { kDetected, kHarmless, kUndetected };

  // Makes a data set in `directory`, which exists, as a killed process leaves it: with a log that
  // is not yet moved into the database, and an open upload. Also makes a snapshot of it. Errors:
  // those of the store.
  static absl::StatusOr<DamagedStore> Make(const std::string& directory);

  const std::vector<File>& files() const { return files_; }
  const std::vector<File>& snapshot() const { return snapshot_; }

  // Opens a directory with these files. The store must refuse to open or to load, or hold exactly
  // the rows of the data set. Errors: the files cannot be written.
  absl::StatusOr<Outcome> Open(const std::vector<File>& files) const;
  // As Open, of a directory that is restored from a snapshot with these files.
  absl::StatusOr<Outcome> Restore(const std::vector<File>& files) const;

 private:
  explicit DamagedStore(std::string directory) : directory_(std::move(directory)) {}

  std::string directory_;
  Model model_;
  std::vector<File> files_;
  std::vector<File> snapshot_;
};

// Makes a data set in `directory`. Then changes every `stride`th byte of all files, beginning with
// byte `first`. Prints `flips= detected= harmless= undetected=` on stderr. Returns 0 if none is
// undetected.
int FlipEveryByte(const std::string& directory, int64_t first, int64_t stride);

}  // namespace nearfield::fault
