// The manifest of a snapshot: who made it, the list of its files with their SHA-256, and a SHA-256
// of the list.
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

struct Manifest {
  std::string owner;  // the principal that made the snapshot; empty: none. Without a line break
  std::vector<ManifestFile> files;
};

// Returns the manifest as text: one line for the owner, if there is one, and one for each file; the
// last line is the digest of all others.
std::string EncodeManifest(const Manifest& manifest);
// Parses and checks a manifest; `path` is for messages. Errors: DataLoss (damaged, or a name that
// is not a file of a snapshot), FailedPrecondition (a newer format).
absl::StatusOr<Manifest> ParseManifest(const std::string& text, const std::string& path);

}  // namespace nearfield::store
