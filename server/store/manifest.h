// The list of a snapshot's files with their SHA-256, itself protected by one.
#ifndef NEARFIELD_SERVER_STORE_MANIFEST_H_
#define NEARFIELD_SERVER_STORE_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nearfield::store {

inline constexpr char kManifestName[] = "MANIFEST";

struct ManifestFile {
  std::string name;  // the catalogue or a segment: never a path
  int64_t bytes = 0;
  std::string sha256;  // hex
};

// As text: one line a file, the last line the digest of those before.
std::string EncodeManifest(const std::vector<ManifestFile>& files);
// Errors: DataLoss (damaged, or a name that no snapshot holds), FailedPrecondition (a newer
// format).
absl::StatusOr<std::vector<ManifestFile>> ParseManifest(const std::string& text);

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_MANIFEST_H_
