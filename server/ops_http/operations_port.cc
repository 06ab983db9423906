#include "server/ops_http/operations_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/http/browser_guard.h"
#include "server/ops_http/collection_metrics.h"
#include "server/ops_http/first_steps.h"
#include "server/ops_http/gpu_metrics.h"
#include "server/ops_http/metric_set.h"
#include "server/ops_http/page.h"
#include "server/ops_http/readiness.h"
#include "server/ops_http/server_metrics.h"

namespace nearfield::server {
namespace {

constexpr char kLivePath[] = "/livez";
constexpr char kReadyPath[] = "/readyz";
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kJsonType[] = "application/json";

// Returns the HTTP port for Content-Security-Policy, of any host: a policy has no form for an
// address of IPv6.
std::string CallsTo(bool has_tls, int http_port) {
  return http_port == 0 ? "" : absl::StrCat(has_tls ? "https" : "http", "://*:", http_port);
}

}  // namespace

OperationsPort::OperationsPort(Options options)
    : state_(options.state),
      certificates_(options.certificates),
      gpus_(std::move(options.gpus)),
      control_(options.control),
      grpc_port_(options.grpc_port),
      http_port_(options.http_port),
      history_(SearchHistory::Start(options.state)) {}

absl::StatusOr<std::unique_ptr<OperationsPort>> OperationsPort::Start(Options options) {
  auto port = std::unique_ptr<OperationsPort>(new OperationsPort(std::move(options)));
  HttpServer::Options http = {
      .listen = port->state_->settings().ops_listen.value(),
      .calls_to = CallsTo(port->certificates_ != nullptr, port->http_port_),
      .answer = [port = port.get()](const HttpRequest& request) { return port->Answer(request); },
      .is_probe = [](const std::string& path) { return path == kLivePath || path == kReadyPath; },
      .log = port->state_->log()};
  ABSL_ASSIGN_OR_RETURN(port->http_, HttpServer::Start(std::move(http)));
  return port;
}

HttpReply OperationsPort::Answer(const HttpRequest& request) {
  if (IsLoopback(state_->settings().ops_listen.value())) {
    const absl::Status host = CheckHost(request.browser);
    if (!host.ok()) return {.status = 403, .body = std::string(host.message()) + "\n"};
  }
  if (request.path == "/metrics") return {.content_type = kMetricsType, .body = Metrics()};
  if (request.path == kReadyPath) {
    return {.status = IsReady(*state_) ? 200 : 503,
            .content_type = kJsonType,
            .body = ReadinessJson(state_, certificates_)};
  }
  if (request.path == kLivePath) {
    if (IsAlive(*state_)) return {.body = "ok\n"};
    return {.status = 503, .body = state_->WhyNotServing(state_->phase()) + "\n"};
  }
  if (request.path == "/history.json") {
    return {.content_type = kJsonType, .body = history_->Json()};
  }
  if (request.path == "/start.json") {
    const ServerAddress server = {.settings = &state_->settings(),
                                  .port = grpc_port_,
                                  .http_port = http_port_,
                                  .needs_key = control_->requires_keys()};
    return {.content_type = kJsonType, .body = FirstStepsJson(server, request.browser.host)};
  }
  for (const PageFile& file : PageFiles()) {
    if (request.path == file.path) {
      return {.content_type = file.content_type, .body = std::string(file.content)};
    }
  }
  return {.status = 404, .body = "this port has /, /metrics, /livez and /readyz\n"};
}

std::string OperationsPort::Metrics() const {
  MetricSet metrics;
  AddProcessMetrics(state_, &metrics);
  AddCallMetrics(state_, &metrics);
  if (certificates_ != nullptr) AddCertificateMetrics(certificates_->state(), &metrics);
  Core* const core = state_->core();
  AddMemoryMetrics(state_, core, &metrics);
  AddDiskMetrics(state_->settings(), &metrics);
  if (core != nullptr) {
    AddEngineMetrics(state_->settings(), *core, &metrics);
    AddCollectionMetrics(core->catalog, &metrics);
    AddPrincipalMetrics(state_->quotas().Uses(), &metrics);
    AddAuditMetrics(*core, &metrics);
  }
  for (const std::unique_ptr<GpuMonitor>& gpu : gpus_) {
    MetricLabels labels;
    if (gpus_.size() > 1) labels.emplace_back("gpu", std::to_string(gpu->device()));
    AddGpuMetrics(gpu->Latest(), labels, &metrics);
  }
  return metrics.Text();
}

}  // namespace nearfield::server
