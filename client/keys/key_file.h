// The key file: the API keys that a server accepts, and the limits of their principals, as JSON.
// `nearfield keys` changes it, a server reads it. It contains no secret.
//
//   {"format": 1, "principals": {"pipeline": {"device_bytes": 21474836480, "collections": 10}},
//    "keys": [{"id": "6f1d0c9a3b5e7f24", "principal": "pipeline",
//    "sha256": "...", "scopes": ["search", "write"], "collections": "docs-*",
//    "created": "2026-01-31T12:00:00Z", "expires": "2027-01-31T00:00:00Z"}]}
//
// "principals", "expires" and "created" may be absent. The limits of a principal have the names of
// kQuotaKinds. Unknown fields are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/keys/api_key.h"
#include "client/keys/quota.h"

namespace nearfield {

inline constexpr size_t kKeyFileBytesMax = size_t{4} << 20;
inline constexpr size_t kKeysMax = 10000;

struct KeyFile {
  std::vector<ApiKey> keys;
  std::map<std::string, QuotaAmounts> limits;  // by principal; 0: the server's default

  bool operator==(const KeyFile&) const = default;
};

// Errors: InvalidArgument (names the key or principal and the field).
absl::StatusOr<KeyFile> ParseKeyFile(const std::string& text);
std::string KeyFileText(const KeyFile& file);

// Errors: NotFound, InvalidArgument (those of ReadRegularFile; not a key file; every user may write
// it); names the file.
absl::StatusOr<KeyFile> ReadKeyFile(const std::string& path);

// Replaces the file atomically by what `change` makes of it; a file that does not exist is empty,
// and is created with mode 0600. Mode and owner of a file that exists stay. A symbolic link stays,
// and its target is replaced. Errors: those of `change` and ReadKeyFile; FailedPrecondition
// (another process changes the file); InvalidArgument (cannot be written; a link to nothing). On
// error the file stays as it was.
absl::Status ChangeKeyFile(const std::string& path,
                           const std::function<absl::Status(KeyFile*)>& change);

}  // namespace nearfield
