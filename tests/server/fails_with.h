// FailsWith: matches a status by its code and by parts of its message.
#pragma once

#include "tests/testing/status_matchers.h"

namespace nearfield {

// Matches an absl::Status or absl::StatusOr with this code whose message contains every part.
template <typename... Parts>
auto FailsWith(absl::StatusCode code, const Parts&... parts) {
  return ::absl_testing::StatusIs(code, ::testing::AllOf(::testing::HasSubstr(parts)...));
}

}  // namespace nearfield
