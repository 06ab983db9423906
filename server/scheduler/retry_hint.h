// Marks a status as a transient refusal that is worth a retry after this time.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace nearfield::server {

absl::Status WithRetryAfter(absl::Status status, int64_t retry_after_ms);

// Returns the hint; nullopt if a retry cannot help.
std::optional<int64_t> RetryAfterMs(const absl::Status& status);

}  // namespace nearfield::server
