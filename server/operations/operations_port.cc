#include "server/operations/operations_port.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/operations/collection_metrics.h"
#include "server/operations/metric_set.h"
#include "server/operations/readiness.h"
#include "server/operations/server_metrics.h"

namespace nearfield::server {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kJsonType[] = "application/json";

}  // namespace

absl::StatusOr<std::unique_ptr<OperationsPort>> OperationsPort::Start(
    const std::string& listen, ServerState* state, std::unique_ptr<GpuMonitor> gpu) {
  auto port = std::unique_ptr<OperationsPort>(new OperationsPort(state, std::move(gpu)));
  ABSL_ASSIGN_OR_RETURN(
      port->http_,
      HttpServer::Start(
          listen, [port = port.get()](const HttpRequest& request) { return port->Answer(request); },
          state->log()));
  return port;
}

HttpReply OperationsPort::Answer(const HttpRequest& request) const {
  if (request.path == "/metrics") return {.content_type = kMetricsType, .body = Metrics()};
  if (request.path == "/readyz") {
    return {.status = IsReady(*state_) ? 200 : 503,
            .content_type = kJsonType,
            .body = ReadinessJson(state_)};
  }
  if (request.path == "/livez") {
    if (IsAlive(*state_)) return {.body = "ok\n"};
    return {.status = 503, .body = state_->WhyNotServing(state_->phase()) + "\n"};
  }
  return {.status = 404, .body = "this port has /metrics, /livez and /readyz\n"};
}

std::string OperationsPort::Metrics() const {
  MetricSet metrics;
  AddProcessMetrics(state_, &metrics);
  AddCallMetrics(state_, &metrics);
  Core* const core = state_->core();
  AddMemoryMetrics(state_, core, &metrics);
  AddDiskMetrics(state_->settings(), &metrics);
  if (core != nullptr) {
    AddEngineMetrics(state_->settings(), *core, &metrics);
    AddCollectionMetrics(core->catalog, &metrics);
    AddPrincipalMetrics(state_->device_quotas().Uses(), &metrics);
    AddAuditMetrics(*core, &metrics);
  }
  if (gpu_ != nullptr) gpu_->AddMetrics(&metrics);
  return metrics.Text();
}

}  // namespace nearfield::server
