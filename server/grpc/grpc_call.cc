#include "server/grpc/grpc_call.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/grpc/status_details.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr char kClientRequestId[] = "x-request-id";
constexpr char kClientCaller[] = "nearfield-caller";
constexpr char kAuthorization[] = "authorization";
constexpr char kTraceParent[] = "traceparent";
constexpr char kRequestIdKey[] = "nearfield-request-id";
constexpr char kRetryAfterKey[] = "grpc-retry-pushback-ms";

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
  return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                        "metadata: ", bytes, " bytes, the limit is ", kMetadataBytesMax)),
                    "metadata");
}

}  // namespace

absl::StatusOr<KeyPtr> KeyIn(const grpc::CallbackServerContext& context,
                             const AccessControl& control) {
  if (control.requires_keys() && context.client_metadata().count(kAuthorization) > 1) {
    return absl::UnauthenticatedError("authorization: given more than once");
  }
  return control.Authenticate(Metadata(context, kAuthorization));
}

CallFacts FactsOf(const grpc::CallbackServerContext& context, const CallGuard& guard,
                  double pass_us_max) {
  CallFacts facts = {.request_id = std::string(Metadata(context, kClientRequestId)),
                     .caller_name = std::string(Metadata(context, kClientCaller)),
                     .trace_parent = std::string(Metadata(context, kTraceParent)),
                     .peer = context.peer(),
                     .deadline = context.deadline(),
                     .pass_us_max = pass_us_max};
  facts.audited = guard.method->IsAdministrative();
  absl::StatusOr<KeyPtr> key = KeyIn(context, *guard.control);
  facts.status = key.status();
  if (key.ok()) {
    facts.key = *std::move(key);
    facts.control = guard.control;
    facts.status = CheckMethod(facts.key, *guard.method);
  }
  facts.status.Update(CheckMetadata(context));
  return facts;
}

grpc::Status StatusOf(const CallEnd& end, grpc::CallbackServerContext* context) {
  context->AddTrailingMetadata(kRequestIdKey, end.request_id);
  if (end.retry_after_ms.has_value()) {
    context->AddTrailingMetadata(kRetryAfterKey, absl::StrCat(*end.retry_after_ms));
  }
  return WithDetails(end.status, end.retry_after_ms);
}

}  // namespace nearfield::server
