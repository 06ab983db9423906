#include "server/security/access_control.h"

#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace nearfield::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";

Microseconds WallTime() {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

absl::Status NoKey(const std::string& problem) {
  return absl::UnauthenticatedError(absl::StrCat("authorization: ", problem));
}

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

AccessControl::AccessControl(Now now) : now_(now != nullptr ? std::move(now) : WallTime) {}

AccessControl::KeyChanges AccessControl::SetKeys(std::vector<ApiKey> keys) {
  auto by_id = std::make_shared<Keys>();
  for (ApiKey& key : keys) {
    std::string id = key.id;
    by_id->emplace(std::move(id), std::make_shared<const ApiKey>(std::move(key)));
  }
  KeyChanges changes;
  const MutexLock lock(mutex_);
  static const Keys kNone;
  const Keys& before = keys_ != nullptr ? *keys_ : kNone;
  for (const auto& [id, key] : *by_id) {
    const auto known = before.find(id);
    if (known == before.end()) {
      changes.added.push_back(id);
    } else if (!(*known->second == *key)) {
      changes.changed.push_back(id);
    }
  }
  for (const auto& [id, key] : before) {
    if (by_id->count(id) == 0) changes.removed.push_back(id);
  }
  keys_ = std::move(by_id);
  return changes;
}

std::shared_ptr<const AccessControl::Keys> AccessControl::keys() const {
  const MutexLock lock(mutex_);
  return keys_;
}

bool AccessControl::requires_keys() const { return keys() != nullptr; }

size_t AccessControl::keys_count() const {
  const std::shared_ptr<const Keys> keys = this->keys();
  return keys != nullptr ? keys->size() : 0;
}

absl::Status AccessControl::CheckNotExpired(const ApiKey& key) const {
  if (!key.IsExpired(now_())) return absl::OkStatus();
  return NoKey(absl::StrCat("the key ", key.id, " expired at ", TimestampText(*key.expires)));
}

absl::StatusOr<KeyPtr> AccessControl::Authenticate(std::string_view authorization) const {
  const std::shared_ptr<const Keys> keys = this->keys();
  if (keys == nullptr) return KeyPtr();
  if (authorization.empty()) return NoKey("absent; this server requires \"Bearer nf_...\"");
  if (!authorization.starts_with(kScheme)) return NoKey("must be \"Bearer nf_...\"");
  const std::string_view text = authorization.substr(kScheme.size());
  const auto found = keys->find(IdIn(text));
  // An unknown id costs the same time as a wrong secret.
  static constexpr Sha256 kNoHash = {};
  const bool matches = HashMatches(text, found != keys->end() ? found->second->hash : kNoHash);
  if (found == keys->end() || !matches) return NoKey("no such key");
  const absl::Status valid = CheckNotExpired(*found->second);
  if (!valid.ok()) return valid;
  return found->second;
}

absl::Status AccessControl::CheckStillValid(const KeyPtr& key) const {
  if (key == nullptr) return absl::OkStatus();
  const std::shared_ptr<const Keys> keys = this->keys();
  const auto found = keys->find(key->id);
  if (found == keys->end() || !(*found->second == *key)) {
    return NoKey(absl::StrCat("the key ", key->id, " was revoked or changed"));
  }
  return CheckNotExpired(*key);
}

absl::Status CheckMethod(const KeyPtr& key, const MethodAccess& method) {
  if (key == nullptr) return absl::OkStatus();
  if (!key->HasAny(method.scopes)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the key ", key->id, " has the scopes ", ScopesText(key->scopes),
                     "; this call needs one of ", ScopesText(method.scopes)));
  }
  if (method.target == AccessTarget::kServer && !key->CoversAll()) {
    return absl::PermissionDeniedError(absl::StrCat("the key ", key->id,
                                                    " is for the collections \"", key->collections,
                                                    "\"; this call concerns all of them"));
  }
  return absl::OkStatus();
}

absl::Status CheckCollection(const KeyPtr& key, std::string_view field, std::string_view name) {
  if (key == nullptr || key->Covers(name)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      View(field), ": the key ", key->id, " is for the collections \"", key->collections,
      "\", not for \"", absl::CHexEscape(View(name.substr(0, 64))), "\""));
}

}  // namespace nearfield::server
