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

void HttpUpload::Begin() {
  Live();
  if (!facts().status.ok()) return Refuse(facts().status);
  Bind([this](NearfieldService* service) { return service->Upload(this); });
}

void HttpUpload::Read() {
  exchange().Post([this] {
    is_reading_ = true;
    lines_.ReadLine([this, self = shared_from_this()](
                        const absl::StatusOr<std::shared_ptr<BodyText>>& line) { OnLine(line); });
  });
}

void HttpUpload::OnLine(const absl::StatusOr<std::shared_ptr<BodyText>>& line) {
  if (!std::exchange(is_reading_, false)) return;  // the call is over
  const bool is_over = absl::IsCancelled(line.status()) || (line.ok() && *line == nullptr);
  if (is_over) return call_->OnReadDone(false);
  // Decoded later, on a thread of the uploads.
  incoming_ = [line, start = start_]() -> absl::StatusOr<std::shared_ptr<const pb::UploadRequest>> {
    if (!line.ok()) return line.status();
    return ReadRequest<pb::UploadRequest>(
        start, &(*line)->text,
        kUploadDecodedPart * start.base->settings->request_bytes_max.value());
  };
  call_->OnReadDone(true);
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

void HttpUpload::Done() {
  if (std::exchange(is_reading_, false)) call_->OnReadDone(false);
  HttpCall::Done();
}

}  // namespace nearfield::server
