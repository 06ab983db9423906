#include "server/grpc/status_details.h"

#include "server/convert/error_details.h"

namespace nearfield::server {

grpc::Status WithDetails(const absl::Status& status, std::optional<int64_t> retry_after_ms) {
  if (status.ok()) return grpc::Status::OK;
  const ErrorDetails error = DetailsOf(status, retry_after_ms);
  return {static_cast<grpc::StatusCode>(status.code()), error.message, error.details};
}

}  // namespace nearfield::server
