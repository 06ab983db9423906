// The status and the JSON of an error, as a client of HTTP gets them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace nearfield::server {

// Returns the HTTP status of a code, by the table in google/rpc/code.proto; 200 for OK.
int HttpStatusOf(absl::StatusCode code);

// Returns a google.rpc.Status with its details (convert/error_details.h) as JSON.
std::string ErrorJson(const absl::Status& status, std::optional<int64_t> retry_after_ms);

}  // namespace nearfield::server
