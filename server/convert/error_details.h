// DetailsOf: the message and the google.rpc details of an error, as its caller gets them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace nearfield::server {

struct ErrorDetails {
  std::string message;  // UTF-8, truncated to fit a header
  std::string details;  // a serialized google.rpc.Status
};

// Returns the details of common.proto, "Error details"; empty if the status is OK. They hold the
// same message, as libraries that decode them require.
ErrorDetails DetailsOf(const absl::Status& status, std::optional<int64_t> retry_after_ms);

}  // namespace nearfield::server
