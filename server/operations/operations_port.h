// OperationsPort: the HTTP port for operators and their tools. It is read-only.
//   /metrics  figures in the Prometheus text format
//   /livez    200 unless only a restart helps
//   /readyz   200 if the server serves, else 503; the body says why and how far the start is
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/calls/server_state.h"
#include "server/operations/gpu_monitor.h"
#include "server/operations/http_server.h"

namespace nearfield::server {

class OperationsPort {
 public:
  // Binds the address and answers. `state` outlives the port; its core may end only after the port.
  // `gpu`: null if no GPU is watched. Errors: as HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<OperationsPort>> Start(const std::string& listen,
                                                               ServerState* state,
                                                               std::unique_ptr<GpuMonitor> gpu);

  int port() const { return http_->port(); }

 private:
  OperationsPort(ServerState* state, std::unique_ptr<GpuMonitor> gpu)
      : state_(state), gpu_(std::move(gpu)) {}
  HttpReply Answer(const HttpRequest& request) const;
  std::string Metrics() const;

  ServerState* const state_;
  const std::unique_ptr<GpuMonitor> gpu_;
  std::unique_ptr<HttpServer> http_;  // last: its threads use the others
};

}  // namespace nearfield::server
