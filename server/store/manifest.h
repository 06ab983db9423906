// The manifest of a snapshot: the list of its files with their SHA-256, and a SHA-256 of the list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nearfield::store {

inline constexpr char kManifestName[] = "MANIFEST";

struct ManifestFile {
  std::string name;  // the catalog or a segment: never a path
  int64_t bytes = 0;
  std::string sha256;  // hex
};

// Returns the manifest as text: one line for each file; the last line is the digest of all others.
std::string EncodeManifest(const std::vector<ManifestFile>& files);
// Parses and checks a manifest; `path` is for messages. Errors: DataLoss (damaged, or a name that
// is not a file of a snapshot), FailedPrecondition (a newer format).
absl::StatusOr<std::vector<ManifestFile>> ParseManifest(const std::string& text,
                                                        const std::string& path);

}  // namespace nearfield::store
