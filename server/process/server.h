// Server: a listening port, its services, and the engine that they use.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/keys/key_file.h"
#include "server/boot/instance.h"
#include "server/config/exit_code.h"
#include "server/config/settings.h"
#include "server/grpc/grpc_services.h"
#include "server/grpc/health_service.h"
#include "server/http/http_port.h"
#include "server/listener/acceptor.h"
#include "server/ops_http/operations_port.h"
#include "server/process/certificate_log.h"
#include "server/process/reader_thread.h"
#include "server/security/access_control.h"
#include "server/security/certificates.h"
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
  // Errors: InvalidArgument (names the address and why it cannot be bound, or the file of a
  // certificate or of keys).
  absl::Status Listen();
  // Puts the keys of a key file that was read again in force. If the read failed, the keys in force
  // stay. The log has the ids of the keys that changed, or the reason.
  void ApplyKeys(const absl::StatusOr<KeyFile>& file);
  // Looks at the files of the certificates soon, and not only after tls_reload_s. Never waits.
  void WakeCertificates();
  // Returns the bound address: "127.0.0.1:50051".
  std::string address() const;
  // Returns 0 for a unix socket.
  int port() const { return port_; }
  // Returns the bound address of the operations port; empty: there is none.
  std::string ops_address() const;
  // Returns the bound address of the HTTP port; empty: there is none.
  std::string http_address() const;
  // Returns the counts of both ports of the calls.
  AcceptCounts connections() const;

  // Boots the instance. Returns kClean, or the reason why the process must end.
  ExitCode Boot(const EngineFactory& make_engine) { return instance_.Boot(make_engine); }

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

  Instance& instance() { return instance_; }
  ServerState& state() { return instance_.state(); }
  // Returns the service that the port adapts, for callers in this process.
  NearfieldService& service() { return instance_.service(); }

 private:
  ServiceBase GrpcBase() {
    return {.service = &service(),
            .requests = &state().ledger().requests,
            .control = &control_,
            .has_keys = !settings_->key_file.value().empty()};
  }
  // Reads the key file, if there is one. Errors: InvalidArgument.
  absl::Status LoadKeys();
  void SetKeys(const KeyFile& file);
  // Reads the certificates, if there are any, and begins to watch their files. Errors:
  // InvalidArgument.
  absl::Status LoadCertificates();
  absl::Status ListenForOperations(int grpc_port);
  absl::Status ListenForHttp();
  // Takes over a port that was started. A default address that cannot be bound is logged, and the
  // server continues without the port. Errors: InvalidArgument.
  template <typename Port>
  absl::Status Take(absl::StatusOr<std::unique_ptr<Port>> started, const char* what,
                    const TextSetting& setting, std::unique_ptr<Port>* port);
  // Returns the maximum of concurrent connections: `setting`, or a part of the limit on
  // descriptors.
  int64_t ConnectionsMax(const NumberSetting& setting, int64_t descriptors_part) const;
  // Begins to accept connections, and passes them to gRPC.
  void StartAccepting(std::unique_ptr<ListenSockets> sockets);
  void StopAccepting();
  // Ends all connections, after their clients had time to take their last replies.
  void Disconnect();
  // Returns false if calls did not end within `wait` after they were cancelled.
  bool StopGrpc(std::chrono::milliseconds wait);
  const Settings* const settings_;
  Log* const log_;
  const Clock* const clock_;
  AccessControl control_;
  std::shared_ptr<Certificates> certificates_;  // null: no TLS
  std::shared_ptr<CertificateLog> certificate_log_;
  std::unique_ptr<ReaderThread> certificate_reader_;
  HealthService health_;
  Instance instance_;
  RetrievalService retrieval_;
  IngestService ingest_;
  AdminService admin_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> handover_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<HttpPort> http_;  // null: none
  std::unique_ptr<OperationsPort> operations_;
  int port_ = 0;
};

}  // namespace nearfield::server
