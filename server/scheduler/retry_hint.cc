#include "server/scheduler/retry_hint.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"

namespace nearfield::server {
namespace {

constexpr char kPayloadName[] = "nearfield/retry-after-ms";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, int64_t retry_after_ms) {
  status.SetPayload(kPayloadName, absl::Cord(absl::StrCat(retry_after_ms)));
  return status;
}

std::optional<int64_t> RetryAfterMs(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadName);
  int64_t value = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &value)) return std::nullopt;
  return value;
}

}  // namespace nearfield::server
