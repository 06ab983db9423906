// The connection behind a Client, and the one way a unary call is made.
#ifndef NEARFIELD_CLIENT_CPP_CORE_H_
#define NEARFIELD_CLIENT_CPP_CORE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/cpp/retry.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "nearfield/client/client.h"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/ingest.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"

namespace nearfield::client {

// A Client whose waits follow `clock`, which must outlive it.
Client MakeClient(const ClientOptions& options, Clock* clock);

class Client::Core {
 public:
  Core(const ClientOptions& options, Clock* clock);

  struct CallSpec {
    std::optional<std::chrono::milliseconds> deadline;  // absent: that of the client
    bool idempotent = true;
    std::optional<TimePoint> until;  // in place of the deadline
  };
  // Of a call that may ask for the limits first: the deadline counts from here for both.
  CallSpec SpecFrom(const std::optional<std::chrono::milliseconds>& deadline) const;

  // Calls with retries. `request_id`, where not null, receives the server's id of a call that
  // succeeded.
  template <typename Stub, typename Request, typename Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response, const CallSpec& spec,
                    std::string* request_id = nullptr) {
    return Run(
        spec,
        [&](grpc::ClientContext* context) {
          response->Clear();
          return (stub.*method)(context, request, response);
        },
        request_id);
  }

  // To be called before a context is used: says who calls.
  void Introduce(grpc::ClientContext* context) const;
  // The plan of a call that begins now.
  RetryPlan PlanFor(const CallSpec& spec) const;
  // Status and hint of a finished call.
  Attempt Outcome(const grpc::Status& status, const grpc::ClientContext& context) const;
  // Refuses a request larger than the server takes, with a better message than gRPC's own.
  absl::Status CheckRequestBytes(uint64_t bytes, const CallSpec& spec);
  absl::StatusOr<Limits> GetLimits(const CallSpec& spec);

  const ClientOptions& options() const { return options_; }
  Clock& clock() { return *clock_; }
  v1::Retrieval::Stub& retrieval() { return *retrieval_; }
  v1::Ingest::Stub& ingest() { return *ingest_; }
  v1::Admin::Stub& admin() { return *admin_; }
  grpc::health::v1::Health::Stub& health() { return *health_; }

 private:
  absl::Status Run(const CallSpec& spec,
                   const std::function<grpc::Status(grpc::ClientContext*)>& call,
                   std::string* request_id);

  ClientOptions options_;
  Clock* clock_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Retrieval::Stub> retrieval_;
  std::unique_ptr<v1::Ingest::Stub> ingest_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::mutex limits_mutex_;
  std::optional<Limits> limits_;
};

// The value of "nearfield-request-id", or empty. Requires a finished call.
std::string RequestIdIn(const grpc::ClientContext& context);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CPP_CORE_H_
