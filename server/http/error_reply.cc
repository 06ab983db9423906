#include "server/http/error_reply.h"

#include <google/protobuf/util/json_util.h>

#include "google/rpc/status.pb.h"
#include "server/convert/error_details.h"

namespace nearfield::server {

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk: return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange: return 400;
    case absl::StatusCode::kUnauthenticated: return 401;
    case absl::StatusCode::kPermissionDenied: return 403;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted: return 409;
    case absl::StatusCode::kResourceExhausted: return 429;
    case absl::StatusCode::kCancelled: return 499;
    case absl::StatusCode::kUnimplemented: return 501;
    case absl::StatusCode::kUnavailable: return 503;
    case absl::StatusCode::kDeadlineExceeded: return 504;
    default: return 500;
  }
}

std::string ErrorJson(const absl::Status& status, std::optional<int64_t> retry_after_ms) {
  google::rpc::Status message;
  message.ParseFromString(DetailsOf(status, retry_after_ms).details);
  std::string json;
  // Protobuf's own conversion: the details are of any type.
  const auto printed = google::protobuf::util::MessageToJsonString(message, &json);
  return printed.ok() ? json : "{}";
}

}  // namespace nearfield::server
