#include "server/store/format.h"

#include "absl/strings/str_cat.h"

namespace nearfield::store {

absl::Status CheckReadable(const FileFormat& format, int64_t found, const std::string& path) {
  if (found >= format.read_min && found <= format.written) return absl::OkStatus();
  if (found < 1) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", format.what, " format ", found, ", must be at least 1: damaged"));
  }
  const char* const advice =
      found > format.written
          ? "use the version that wrote it, or a newer one; to stay with this version, restore a "
            "snapshot that it made"
          : "start a version in between on it first";
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", format.what, " format ", found, "; nearfield ", NEARFIELD_VERSION,
                   " reads formats ", format.read_min, " .. ", format.written, ": ", advice));
}

}  // namespace nearfield::store
