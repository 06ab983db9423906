// CallGuard: the checks of a call against the keys of the server and the access table.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "server/security/access_control.h"
#include "server/security/access_table.h"

namespace nearfield::server {

// Both pointers outlive every call.
struct CallGuard {
  const AccessControl* control = nullptr;
  const MethodAccess* method = nullptr;
};

// Checks a request that was just decoded: the key is still valid, and it covers every collection
// that the request names. Errors: Unauthenticated, PermissionDenied.
absl::Status CheckRequest(const CallGuard& guard, const KeyPtr& key,
                          const google::protobuf::Message& request);

}  // namespace nearfield::server
