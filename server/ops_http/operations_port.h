// OperationsPort: the HTTP port for operators and their tools. It is read-only.
//   /metrics      figures in the Prometheus text format
//   /livez        200 unless only a restart helps
//   /readyz       200 if the server serves, else 503; the body says why and how far the start is
//   /             a page that draws these figures, and its style and scripts
//   /history.json what searches cost since the start of the server (search_history.h)
//   /start.json   how to reach this server, and code that makes a collection on it (first_steps.h)
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/ops_http/http_server.h"
#include "server/ops_http/search_history.h"
#include "server/rpc/server_state.h"
#include "server/security/access_control.h"
#include "server/security/certificates.h"
#include "server/telemetry/gpu_monitor.h"

namespace nearfield::server {

class OperationsPort {
 public:
  // All pointers outlive the port; the core of the state may end only after the port.
  struct Options {
    ServerState* state = nullptr;
    const AccessControl* control = nullptr;              // knows if calls need a key
    const Certificates* certificates = nullptr;          // null: no TLS
    std::vector<std::unique_ptr<GpuMonitor>> gpus = {};  // empty: no GPU is watched
    int grpc_port = 0;                                   // bound; 0: a Unix socket
    int http_port = 0;                                   // bound; 0: there is none
  };
  // Binds the address ops_listen and answers. Errors: as HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<OperationsPort>> Start(Options options);

  int port() const { return http_->port(); }

 private:
  explicit OperationsPort(Options options);
  HttpReply Answer(const HttpRequest& request);
  std::string Metrics() const;

  ServerState* const state_;
  const Certificates* const certificates_;
  const std::vector<std::unique_ptr<GpuMonitor>> gpus_;
  const AccessControl* const control_;
  const int grpc_port_;
  const int http_port_;
  const std::shared_ptr<SearchHistory> history_;
  std::unique_ptr<HttpServer> http_;  // last: its threads use the others
};

}  // namespace nearfield::server
