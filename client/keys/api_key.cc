#include "client/keys/api_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace nearfield {
namespace {

constexpr std::string_view kPrefix = "nf_";
constexpr size_t kIdBytes = 8;
constexpr size_t kSecretBytes = 32;
constexpr size_t kIdDigits = 2 * kIdBytes;
constexpr size_t kKeyTextBytes = kPrefix.size() + kIdDigits + 1 + 2 * kSecretBytes;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// Returns true if all characters are letters, digits, or in `others`.
bool HasOnly(std::string_view text, std::string_view others) {
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        others.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

Sha256 HashOf(std::string_view text) {
  Sha256 hash = {};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr);
  return hash;
}

absl::StatusOr<std::string> RandomHex(size_t bytes) {
  std::string drawn(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(drawn.data()), static_cast<int>(bytes)) != 1) {
    return absl::InternalError("there are no random numbers for a key");
  }
  return absl::BytesToHexString(drawn);
}

absl::Status Refused(const char* field, std::string_view value, const std::string& limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " = \"", absl::CHexEscape(absl::string_view(value.data(), value.size())),
                   "\", must be ", limit));
}

}  // namespace

bool ApiKey::Covers(std::string_view collection) const {
  if (!collections.ends_with('*')) return collection == collections;
  return collection.starts_with(std::string_view(collections).substr(0, collections.size() - 1));
}

std::string ScopesText(uint8_t scopes) {
  std::string text;
  for (const auto& [scope, name] : kScopeNames) {
    if ((scopes & static_cast<uint8_t>(scope)) == 0) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

absl::Status CheckPrincipal(std::string_view principal) {
  if (!principal.empty() && principal.size() <= kPrincipalBytesMax && HasOnly(principal, "_.-@")) {
    return absl::OkStatus();
  }
  return Refused("principal", principal,
                 absl::StrCat("1 .. ", kPrincipalBytesMax, " of A-Z a-z 0-9 _ . - @"));
}

absl::Status CheckKey(const ApiKey& key) {
  absl::Status principal = CheckPrincipal(key.principal);
  if (!principal.ok()) return principal;
  std::string_view name = key.collections;
  const bool is_prefix = name.ends_with('*');
  if (is_prefix) name.remove_suffix(1);
  if ((name.empty() && !is_prefix) || key.collections.size() > kPatternBytesMax ||
      !HasOnly(name, "_.-")) {
    return Refused("collections", key.collections,
                   absl::StrCat("the name of a collection, the beginning of names and '*', or "
                                "'*'; at most ",
                                kPatternBytesMax, " bytes"));
  }
  if (ScopesText(key.scopes).empty()) {
    return Refused("scopes", "", absl::StrCat("at least one of ", ScopesText(kAllScopes)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> DrawSecret(ApiKey* key) {
  absl::StatusOr<std::string> id = RandomHex(kIdBytes);
  const absl::StatusOr<std::string> secret = RandomHex(kSecretBytes);
  if (!id.ok() || !secret.ok()) return id.ok() ? secret.status() : id.status();
  key->id = *std::move(id);
  std::string text = std::string(kPrefix).append(key->id).append("_").append(*secret);
  key->hash = HashOf(text);
  return text;
}

std::string_view IdIn(std::string_view key_text) {
  if (key_text.size() != kKeyTextBytes || !key_text.starts_with(kPrefix)) return "";
  const std::string_view id = key_text.substr(kPrefix.size(), kIdDigits);
  for (const char c : id) {
    if (!IsHexDigit(c)) return "";
  }
  return key_text[kPrefix.size() + kIdDigits] == '_' ? id : std::string_view();
}

bool HashMatches(std::string_view key_text, const Sha256& hash) {
  const Sha256 given = HashOf(key_text);
  return CRYPTO_memcmp(given.data(), hash.data(), hash.size()) == 0;
}

}  // namespace nearfield
