// RefusedWith: matches the status of a call by its code and by parts of its message.
#pragma once

#include "tests/server/server_fixture.h"

namespace nearfield::server {

// As HasCode, for a message that contains every part.
template <typename... Parts>
auto RefusedWith(absl::StatusCode code, const Parts&... parts) {
  return HasCode(code, AllOf(HasSubstr(parts)...));
}

}  // namespace nearfield::server
