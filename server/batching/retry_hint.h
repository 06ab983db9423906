// Marks a status as a transient refusal, with the time after which the call is worth repeating.
#ifndef NEARFIELD_SERVER_BATCHING_RETRY_HINT_H_
#define NEARFIELD_SERVER_BATCHING_RETRY_HINT_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace nearfield::server {

absl::Status WithRetryAfter(absl::Status status, int64_t retry_after_ms);

// The hint, or nothing where repeating the call cannot help.
std::optional<int64_t> RetryAfterMs(const absl::Status& status);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_RETRY_HINT_H_
