// Marks a status as a transient refusal that is worth a retry after this time.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace nearfield::server {

absl::Status WithRetryAfter(absl::Status status, int64_t retry_after_ms);

// Returns ResourceExhausted with a hint and a message of these parts.
template <typename... Parts>
absl::Status ExhaustedFor(int64_t retry_after_ms, const Parts&... parts) {
  return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(parts...)), retry_after_ms);
}

// Returns the hint; nullopt if a retry cannot help.
std::optional<int64_t> RetryAfterMs(const absl::Status& status);

}  // namespace nearfield::server
