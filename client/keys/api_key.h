// ApiKey: what a server knows about one API key, nf_<id>_<secret>: the SHA-256 of its text, its
// holder and what it allows. The text itself is shown once, when the key is created.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/value_text/timestamp_text.h"

namespace nearfield {

// The values are bits of ApiKey::scopes.
enum class Scope : uint8_t { kSearch = 1, kRead = 2, kWrite = 4, kAdmin = 8, kCreate = 16 };
inline constexpr std::array<std::pair<Scope, std::string_view>, 5> kScopeNames = {
    {{Scope::kSearch, "search"},
     {Scope::kRead, "read"},
     {Scope::kWrite, "write"},
     {Scope::kCreate, "create"},
     {Scope::kAdmin, "admin"}}};

inline constexpr uint8_t kAllScopes = [] {
  uint8_t all = 0;
  for (const auto& [scope, name] : kScopeNames) {
    all = static_cast<uint8_t>(all | static_cast<uint8_t>(scope));
  }
  return all;
}();

using Sha256 = std::array<uint8_t, 32>;

inline constexpr size_t kPrincipalBytesMax = 64;
inline constexpr size_t kPatternBytesMax = 64;

struct ApiKey {
  std::string id;         // 16 lower-case hexadecimal digits
  std::string principal;  // the holder, who may have several keys
  Sha256 hash = {};       // of the whole text of the key
  uint8_t scopes = 0;
  std::string collections = "*";  // a name, a prefix and '*', or '*'
  std::optional<Microseconds> expires;
  std::optional<Microseconds> created;

  bool operator==(const ApiKey&) const = default;
  // Returns true if the key has one of these scopes.
  bool HasAny(uint8_t wanted) const { return (scopes & wanted) != 0; }
  bool CoversAll() const { return collections == "*"; }
  bool Covers(std::string_view collection) const;
  bool IsExpired(Microseconds now) const { return expires.has_value() && now >= *expires; }
};

// Returns "search, read": the names of these scopes.
std::string ScopesText(uint8_t scopes);

// Checks the name of a principal. Errors: InvalidArgument.
absl::Status CheckPrincipal(std::string_view principal);
// Checks principal, scopes and pattern. Errors: InvalidArgument (names the field).
absl::Status CheckKey(const ApiKey& key);

// Gives `key` a new random id and the hash of a new random text, which it returns. Errors: Internal
// (no source of random numbers).
absl::StatusOr<std::string> DrawSecret(ApiKey* key);

// Returns the id in the text of a key, or empty if the text has not the form of a key.
std::string_view IdIn(std::string_view key_text);

// Returns true if `key_text` is the text of a key with this hash. The time does not depend on how
// much of the hash is equal.
bool HashMatches(std::string_view key_text, const Sha256& hash);

}  // namespace nearfield
