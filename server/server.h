// The server: a listening port, its services, and the engine behind them.
#ifndef NEARFIELD_SERVER_SERVER_H_
#define NEARFIELD_SERVER_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/exit_code.h"
#include "server/config/settings.h"
#include "server/edge/acceptor.h"
#include "server/engine_factory.h"
#include "server/service/admin_service.h"
#include "server/service/health_service.h"
#include "server/service/ingest_service.h"
#include "server/service/retrieval_service.h"
#include "server/service/server_state.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

// Listen, then Boot, then Drain or Fail; each once, in this order, from one thread (Boot may have a
// thread of its own).
class Server {
 public:
  // All outlive the server.
  Server(const Settings* settings, Log* log, const Clock* clock);
  // Requires Drain or Fail where Listen succeeded.
  ~Server();

  // Binds and answers: health says NOT_SERVING, calls are refused with Unavailable.
  // Errors: InvalidArgument (names the address and why it cannot be bound).
  absl::Status Listen();
  // The bound address: "127.0.0.1:50051".
  std::string address() const;
  // 0 of a unix socket.
  int port() const { return port_; }
  AcceptCounts connections() const { return acceptor_->counts(); }

  // Creates the engine, checks it against the oracle, and serves. kClean, or why the process must
  // end.
  ExitCode Boot(const EngineFactory& make_engine);

  // NOT_SERVING, then no new connection and no new call, then up to drain_ms for those in flight;
  // what is left is cancelled. With the default of drain_ms all of it takes less than 30 s.
  // kSelfTest: drained, but an answer or a row was wrong before. kFailure: calls would not end even
  // then; kDeviceLost: the device was lost meanwhile. In the last two cases the engine is not
  // touched any more, and the process can only be left.
  ExitCode Drain();

  // The device is lost: NOT_SERVING, no new call, a moment for the calls in flight to be told. The
  // engine is not touched.
  void Fail();

  ServerState& state() { return state_; }

 private:
  // Null where nothing is kept.
  absl::StatusOr<std::unique_ptr<store::Store>> OpenStore();
  absl::Status LoadCollections(Core* core);
  // Accepts connections from now on, and hands them to gRPC.
  void StartAccepting(std::unique_ptr<ListenSockets> sockets);
  // False where calls would not end within `wait` of being cancelled.
  bool StopGrpc(std::chrono::milliseconds wait);
  // Asks the engine, where there is one.
  bool DeviceLost();

  const Settings* const settings_;
  Log* const log_;
  const Clock* const clock_;
  ServerState state_;
  HealthService health_;
  RetrievalService retrieval_;
  IngestService ingest_;
  AdminService admin_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> handover_;
  std::unique_ptr<Acceptor> acceptor_;
  int port_ = 0;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVER_H_
