
#include "client/cpp/check_text.h"
#include "client/cpp/core.h"
#include "client/formats/status_macros.h"

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
  NF_RETURN_IF_ERROR(CheckText("service", service));
  grpc::ClientContext context;
  core_->Introduce(&context);
  const auto reader = core_->stub<HealthStub>().Watch(&context, RequestFor(service));
  health_v1::HealthCheckResponse response;
  while (reader->Read(&response)) {
    if (on_change(FromProto(response))) continue;
    context.TryCancel();
    reader->Finish();
    return absl::OkStatus();
  }
  return core_->Outcome(reader->Finish(), context).status;
}

}  // namespace nearfield::client
