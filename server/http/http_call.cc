#include "server/http/http_call.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "server/rpc/methods.h"

namespace nearfield::server {

ReserveBytes ReserveIn(ByteAccount* account, const std::string& caller, int64_t unreserved,
                       ByteAccount::Hold* hold) {
  return [=](int64_t bytes) -> absl::Status {
    if (bytes <= unreserved) return absl::OkStatus();
    if (bytes > account->bytes_max()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("message: takes more than ", account->bytes_max(),
                       " bytes of memory, the limit: make it smaller"));
    }
    if (hold->bytes() > 0) return hold->Grow(std::max(bytes, hold->bytes()));
    ABSL_ASSIGN_OR_RETURN(*hold, account->Reserve(caller, bytes));
    return absl::OkStatus();
  };
}

int64_t HttpUpload::Unreserved() const {
  return kUploadDecodedPart * start_.base->settings->request_bytes_max.value();
}

void HttpUpload::Write(const pb::UploadResponse& response) {
  exchange().Post([this, &response] {
    last_ = response;
    call_->OnWriteDone(true);
  });
}

void HttpUpload::WriteAndFinish(const pb::UploadResponse& response, const CallEnd& end) {
  exchange().Post([this, &response, end] {
    last_ = response;
    End(end);
  });
}

}  // namespace nearfield::server
