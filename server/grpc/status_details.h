// Converts an absl::Status to the gRPC status for the client, with google.rpc details.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace nearfield::server {

// Returns the status with the message and the details of DetailsOf.
grpc::Status WithDetails(const absl::Status& status, std::optional<int64_t> retry_after_ms);

}  // namespace nearfield::server
