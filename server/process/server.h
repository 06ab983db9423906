// Server: a listening port, its services, and the engine that they use.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/local_service.h"
#include "server/calls/server_state.h"
#include "server/config/exit_code.h"
#include "server/config/settings.h"
#include "server/edge/acceptor.h"
#include "server/operations/operations_port.h"
#include "server/process/engine_factory.h"
#include "server/service/grpc_services.h"
#include "server/service/health_service.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

// Call Listen, then Boot, then Drain or Fail; each once, in this order, from one thread. Boot may
// run on its own thread.
class Server {
 public:
  // All arguments outlive the server.
  Server(const Settings* settings, Log* log, const Clock* clock);
  // Requires: Drain or Fail was called if Listen succeeded.
  ~Server();

  // Binds and answers: health reports NOT_SERVING, and calls are refused with Unavailable.
  // Errors: InvalidArgument (names the address and why it cannot be bound).
  absl::Status Listen();
  // Returns the bound address: "127.0.0.1:50051".
  std::string address() const;
  // Returns 0 for a unix socket.
  int port() const { return port_; }
  // Returns the bound address of the operations port; empty: there is none.
  std::string ops_address() const;
  AcceptCounts connections() const { return acceptor_->counts(); }

  // Creates the engine, checks it against the oracle, loads the collections, and serves. Returns
  // kClean, or the reason why the process must end.
  ExitCode Boot(const EngineFactory& make_engine);

  // Ends the server. Reports NOT_SERVING, then refuses new connections and calls, then waits up to
  // drain_ms for calls in flight and cancels the rest. With the default drain_ms all of this takes
  // less than 30 s.
  // Returns: kClean; kSelfTest (drained, but an answer or a row was wrong before); kFailure (calls
  // did not end even then); kDeviceLost (the device was lost meanwhile). In the last two cases the
  // engine is not used any more, and the process must exit without cleanup.
  ExitCode Drain();

  // Ends the server after the device is lost. Reports NOT_SERVING, refuses new calls, and gives
  // calls in flight a short time to end with an error. Does not use the engine.
  void Fail();

  ServerState& state() { return state_; }
  // Returns the service that the port adapts, for callers in this process.
  NearfieldService& service() { return service_; }

 private:
  ServiceBase GrpcBase() { return {.service = &service_, .requests = &state_.ledger().requests}; }
  // These return kClean, or log the reason why the process must end.
  ExitCode OpenStore(std::unique_ptr<store::Store>* opened);
  ExitCode MakeEngine(const EngineFactory& make_engine, std::unique_ptr<Engine>* made);
  absl::Status LoadCollections(Core* core);
  // Binds the operations port. A default address that is in use is logged, and the server goes on
  // without the port. Errors: InvalidArgument.
  absl::Status ListenForOperations();
  // Accepts connections from now on and passes them to gRPC.
  void StartAccepting(std::unique_ptr<ListenSockets> sockets);
  // Returns false if calls did not end within `wait` after they were cancelled.
  bool StopGrpc(std::chrono::milliseconds wait);
  // Returns true if the engine exists and reports that its device is lost.
  bool DeviceLost();

  const Settings* const settings_;
  Log* const log_;
  const Clock* const clock_;
  ServerState state_;
  HealthService health_;
  LocalService service_;
  RetrievalService retrieval_;
  IngestService ingest_;
  AdminService admin_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> handover_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<OperationsPort> operations_;
  int port_ = 0;
};

}  // namespace nearfield::server
