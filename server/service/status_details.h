// From absl::Status to what a client is told: the gRPC status with its google.rpc details.
#ifndef NEARFIELD_SERVER_SERVICE_STATUS_DETAILS_H_
#define NEARFIELD_SERVER_SERVICE_STATUS_DETAILS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace nearfield::server {

// The details are those of common.proto, "Error details". The message is UTF-8 and cut to a length
// that fits a header; that of the details is the same, as libraries that decode them demand.
grpc::Status WithDetails(const absl::Status& status, std::optional<int64_t> retry_after_ms);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_STATUS_DETAILS_H_
