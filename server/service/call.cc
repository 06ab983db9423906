#include "server/service/call.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduler/retry_hint.h"
#include "server/service/caller_name.h"
#include "server/service/status_details.h"

namespace nearfield::server {
namespace {

constexpr char kClientRequestId[] = "x-request-id";
constexpr char kClientCaller[] = "nearfield-caller";
constexpr char kRequestIdKey[] = "nearfield-request-id";
constexpr char kRetryAfterKey[] = "retry-after-ms";
constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";  // gRPC's own key for the same
constexpr int64_t kUnavailableRetryMs = 1000;

// Returns the value of the key; empty if the client sent none.
std::string_view Metadata(const grpc::CallbackServerContext& context, const char* key) {
  const auto it = context.client_metadata().find(key);
  if (it == context.client_metadata().end()) return "";
  return {it->second.data(), it->second.size()};
}

absl::Status CheckMetadata(const grpc::CallbackServerContext& context) {
  constexpr size_t kEntryBytes = 32;  // RFC 9113, 6.5.2, SETTINGS_MAX_HEADER_LIST_SIZE
  size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) {
    bytes += key.size() + value.size() + kEntryBytes;
  }
  if (bytes <= kMetadataBytesMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("metadata: ", bytes, " bytes, the limit is ", kMetadataBytesMax));
}

// Converts the deadline from wall time, which gRPC uses, to the steady clock.
std::optional<TimePoint> SteadyDeadline(const grpc::CallbackServerContext& context, TimePoint now) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return std::nullopt;
  const auto left = deadline - std::chrono::system_clock::now();
  if (left > std::chrono::hours(24 * 365)) return std::nullopt;
  return now + std::chrono::duration_cast<TimePoint::duration>(left);
}

// Returns kInspection for methods that a server that is not trusted any more still answers. Callers
// do not rely on their answers.
ServerState::Purpose PurposeOf(const std::string& method) {
  for (const char* inspecting :
       {"Verify", "GetCollection", "ListCollections", "GetCapacity", "GetCounters", "Count",
        "CreateSnapshot", "ListSnapshots", "ListUploads"}) {
    if (method == inspecting) return ServerState::Purpose::kInspection;
  }
  return ServerState::Purpose::kService;
}

}  // namespace

std::string CallerOf(const grpc::CallbackServerContext& context) {
  return CallerName(Metadata(context, kClientCaller), context.peer());
}

Call::Call(ServerState* state, grpc::CallbackServerContext* context, const char* method)
    : state_(state),
      context_(context),
      begin_(state->clock().Now()),
      live_(state->live_calls().Add(cancelled_)),
      metadata_status_(CheckMetadata(*context)) {
  record.method = method;
  record.request_id = RequestId(Metadata(*context, kClientRequestId));
  record.peer = context->peer();
  if (metadata_status_.ok()) {
    metadata_status_ = CheckCallerName(Metadata(*context, kClientCaller));
  }
  caller_ = CallerOf(*context);
  deadline_ = SteadyDeadline(*context, begin_);
}

Call::~Call() {
  watch_.End();
  state_->request_log().Record(record, status_);
  state_->live_calls().Remove(live_);
  if (entered_) state_->Leave();
}

void Call::SetWake(std::function<void()> wake) {
  state_->live_calls().SetWake(live_, std::move(wake));
}

absl::StatusOr<Core*> Call::Enter() {
  if (!metadata_status_.ok()) return metadata_status_;
  absl::StatusOr<Core*> core = state_->Enter(PurposeOf(record.method));
  entered_ = core.ok();
  return core;
}

grpc::Status Call::Close(const absl::Status& given) {
  // The end of the drain cancels calls whose callers still wait.
  const bool ended = absl::IsCancelled(given) && state_->live_calls().cancelled();
  const absl::Status status =
      ended ? WithRetryAfter(absl::UnavailableError("the server ended before the call did"),
                             kUnavailableRetryMs)
            : given;
  status_ = status;
  record.total_us = MicrosBetween(begin_, state_->clock().Now());
  state_->call_counter().Record(record, status);  // before the client receives the status
  context_->AddTrailingMetadata(kRequestIdKey, record.request_id);
  WatchReply();
  if (status.ok()) return grpc::Status::OK;
  std::optional<int64_t> retry_ms = RetryAfterMs(status);
  if (absl::IsUnavailable(status) &&
      !retry_ms.has_value()) {  // from the engine: the device may be lost
    retry_ms = kUnavailableRetryMs;
    state_->Suspect();
  }
  if (retry_ms.has_value()) {
    context_->AddTrailingMetadata(kRetryAfterKey, absl::StrCat(*retry_ms));
    context_->AddTrailingMetadata(kPushbackKey, absl::StrCat(*retry_ms));
  }
  return WithDetails(status, retry_ms);
}

void Call::WatchReply() {
  watch_.Begin(&state_->unread_replies(), [context = context_] { context->TryCancel(); });
}

bool Call::Dead() const { return !DeadStatus().ok(); }

absl::Status Call::DeadStatus() const {
  // Check the deadline first, because gRPC cancels a call whose deadline has passed.
  if (deadline_.has_value() && state_->clock().Now() >= *deadline_) {
    return absl::DeadlineExceededError("the deadline passed");
  }
  if (cancelled_->load(std::memory_order_relaxed))
    return absl::CancelledError("the caller cancelled the call");
  return absl::OkStatus();
}

}  // namespace nearfield::server
