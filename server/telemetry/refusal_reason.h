// The reason of a refusal: the limit or the state of the server that a refused call met. Counters
// distinguish refusals by it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace nearfield::server {

// Name of the status payload that holds the reason.
inline constexpr char kRefusalReasonPayload[] = "nearfield/refusal-reason";

// Returns the status with a reason: the name of a setting ("uploads_max"), of a pool of workers
// ("verifications") or of a state ("draining"). Reasons are few and never text of a client.
inline absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kRefusalReasonPayload, absl::Cord(std::string(reason)));
  return status;
}

// Returns the reason of a refusal; "other" if it has none: a limit of the engine or the store.
// Empty if the status is no refusal.
inline std::string RefusalReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated: return "unauthenticated";
    case absl::StatusCode::kPermissionDenied: return "permission_denied";
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable: break;
    default: return "";
  }
  const auto payload = status.GetPayload(kRefusalReasonPayload);
  return payload.has_value() ? std::string(*payload) : "other";
}

}  // namespace nearfield::server
