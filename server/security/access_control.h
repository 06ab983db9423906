// AccessControl: the API keys of a server, and the checks of calls against them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/keys/api_key.h"
#include "engine/base/mutex.h"
#include "server/security/access_table.h"

namespace nearfield::server {

// The key with which a call was made. Null: the call may do everything, because the server has no
// keys, or the caller is in the same process.
using KeyPtr = std::shared_ptr<const ApiKey>;

// Thread-safe.
class AccessControl {
 public:
  // `now`: wall time; a test sets its own.
  using Now = std::function<Microseconds()>;
  explicit AccessControl(Now now = nullptr);

  // The ids of the keys that a SetKeys changed, in order.
  struct KeyChanges {
    std::vector<std::string> added;
    std::vector<std::string> removed;
    std::vector<std::string> changed;
  };
  // Every later call needs one of these keys, even if there is none.
  KeyChanges SetKeys(std::vector<ApiKey> keys);
  bool requires_keys() const;
  size_t keys_count() const;

  // Returns the key in the metadata `authorization`, "Bearer nf_...". Errors: Unauthenticated
  // (absent, unknown, wrong, expired).
  absl::StatusOr<KeyPtr> Authenticate(std::string_view authorization) const;
  // Checks a key that Authenticate returned before: it may have expired, or the keys were loaded
  // again. Errors: Unauthenticated.
  absl::Status CheckStillValid(const KeyPtr& key) const;

 private:
  // By id. Null: no key is required.
  using Keys = std::map<std::string, KeyPtr, std::less<>>;
  std::shared_ptr<const Keys> keys() const;
  absl::Status CheckNotExpired(const ApiKey& key) const;

  const Now now_;
  mutable Mutex mutex_;
  std::shared_ptr<const Keys> keys_ ABSL_GUARDED_BY(mutex_);
};

// Checks that the key may call the method, whatever its request names. Errors: PermissionDenied.
absl::Status CheckMethod(const KeyPtr& key, const MethodAccess& method);
// Checks that the key covers a collection; `field` names it. Errors: PermissionDenied.
absl::Status CheckCollection(const KeyPtr& key, std::string_view field, std::string_view name);

}  // namespace nearfield::server
