#include <algorithm>
#include <chrono>
#include <optional>

#include "client/cpp/check_text.h"
#include "client/cpp/core.h"
#include "client/cpp/status_macros.h"

namespace nearfield::client {
namespace {

namespace health_v1 = grpc::health::v1;

health_v1::HealthCheckRequest RequestFor(std::string_view service) {
  health_v1::HealthCheckRequest request;
  request.set_service(std::string(service));
  return request;
}

Health FromProto(const health_v1::HealthCheckResponse& response) {
  switch (response.status()) {
    case health_v1::HealthCheckResponse::SERVING: return Health::kServing;
    case health_v1::HealthCheckResponse::NOT_SERVING: return Health::kNotServing;
    case health_v1::HealthCheckResponse::SERVICE_UNKNOWN: return Health::kServiceUnknown;
    default: return Health::kUnknown;
  }
}

ServerPhase FromProto(v1::ServerPhase phase) {
  switch (phase) {
    case v1::SERVER_PHASE_STARTING: return ServerPhase::kStarting;
    case v1::SERVER_PHASE_SERVING: return ServerPhase::kServing;
    case v1::SERVER_PHASE_DRAINING: return ServerPhase::kDraining;
    case v1::SERVER_PHASE_LOST: return ServerPhase::kLost;
    default: return ServerPhase::kUnknown;
  }
}

ServerState FromProto(const v1::GetServerStateResponse& proto) {
  ServerState state{.phase = FromProto(proto.phase()), .reason = proto.reason()};
  if (!proto.has_loading()) return state;
  const v1::LoadProgress& loading = proto.loading();
  state.loading = {.collections_loaded = loading.collections_loaded(),
                   .collections_count = loading.collections_count(),
                   .bytes_read = loading.bytes_read(),
                   .bytes_total = loading.bytes_total()};
  if (loading.has_seconds_left()) state.loading->seconds_left = loading.seconds_left();
  return state;
}

// Implements WatchHealth, with a context that the caller has prepared.
absl::Status Watch(Client::Core& core, std::string_view service, grpc::ClientContext* context,
                   const std::function<bool(Health)>& on_change) {
  NF_RETURN_IF_ERROR(CheckText("service", service));
  core.Introduce(context);
  const auto reader = core.stub<HealthStub>().Watch(context, RequestFor(service));
  health_v1::HealthCheckResponse response;
  while (reader->Read(&response)) {
    if (on_change(FromProto(response))) continue;
    context->TryCancel();
    reader->Finish();
    return absl::OkStatus();
  }
  return core.Outcome(reader->Finish(), *context).status;
}

// Returns true if another try may succeed without a change of the request.
bool IsWorthWaiting(const absl::Status& status) {
  return !absl::IsInvalidArgument(status) && !absl::IsUnauthenticated(status) &&
         !absl::IsPermissionDenied(status) && !absl::IsUnimplemented(status);
}

// Pause after a watch that failed: at most ten tries a second, whatever the server does.
constexpr std::chrono::milliseconds kPause{100};
// Time for the last try, which reports why there is no connection.
constexpr std::chrono::milliseconds kLastTry{100};

}  // namespace

std::string_view Name(ServerPhase phase) {
  switch (phase) {
    case ServerPhase::kStarting: return "starting";
    case ServerPhase::kServing: return "serving";
    case ServerPhase::kDraining: return "draining";
    case ServerPhase::kLost: return "lost";
    case ServerPhase::kUnknown: break;
  }
  return "unknown";
}

absl::StatusOr<ServerState> Client::GetServerState(const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::GetServerState, {}, Once(options)));
  return FromProto(response);
}

std::string_view Name(Health health) {
  switch (health) {
    case Health::kServing: return "SERVING";
    case Health::kNotServing: return "NOT_SERVING";
    case Health::kServiceUnknown: return "SERVICE_UNKNOWN";
    case Health::kUnknown: break;
  }
  return "UNKNOWN";
}

absl::StatusOr<Health> Client::CheckHealth(std::string_view service, const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("service", service));
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&HealthStub::Check, RequestFor(service), Once(options)));
  return FromProto(response);
}

absl::Status Client::WatchHealth(std::string_view service,
                                 const std::function<bool(Health)>& on_change) {
  grpc::ClientContext context;
  return Watch(*core_, service, &context, on_change);
}

absl::StatusOr<Health> Client::AwaitServing(std::string_view service,
                                            std::chrono::milliseconds wait_max) {
  using std::chrono::system_clock;
  const auto until = system_clock::now() + wait_max;
  std::optional<absl::StatusOr<Health>> last;
  const auto watch = [&](system_clock::time_point end) {
    grpc::ClientContext context;
    context.set_deadline(end);
    absl::Status status = Watch(*core_, service, &context, [&last](Health health) {
      last = health;
      return health != Health::kServing;
    });
    // The end of the wait says nothing of the server, unless there is nothing else to report.
    if (!status.ok() && (!last || !absl::IsDeadlineExceeded(status))) last = status;
    return status;
  };
  for (;;) {
    const absl::Status status = watch(until);
    const bool is_serving = last && last->ok() && **last == Health::kServing;
    const auto left = until - system_clock::now();
    if (is_serving || !IsWorthWaiting(status) || left <= left.zero()) break;
    core_->clock().SleepFor(std::min(kPause, std::chrono::ceil<std::chrono::milliseconds>(left)));
    if (core_->AwaitConnection(until)) continue;
    watch(until + kLastTry).IgnoreError();  // `last` has its outcome
    break;
  }
  return last.value_or(Health::kUnknown);
}

}  // namespace nearfield::client
