// Client::Core: the connection of a Client, and the implementation of its unary calls.
#pragma once

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

// Returns a Client whose waits use `clock`, which must outlive it.
Client MakeClient(const ClientOptions& options, Clock* clock);

class Client::Core {
 public:
  Core(const ClientOptions& options, Clock* clock);

  struct CallSpec {
    std::optional<std::chrono::milliseconds> deadline;  // absent: the client's deadline
    bool idempotent = true;
    std::optional<TimePoint> until;  // instead of the deadline
  };
  // Returns the spec of a call that may first request the limits: one deadline covers both, from
  // now.
  CallSpec SpecFrom(const std::optional<std::chrono::milliseconds>& deadline) const;

  // Calls with retries. If `request_id` is not null, it receives the server's id of a call that
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

  // Adds the caller's name to a context. Call it before the context is used.
  void Introduce(grpc::ClientContext* context) const;
  // Returns the retry plan of a call that begins now.
  RetryPlan PlanFor(const CallSpec& spec) const;
  // Returns status and retry hint of a finished call.
  Attempt Outcome(const grpc::Status& status, const grpc::ClientContext& context) const;
  // Refuses a request that exceeds the server's limit, with a better message than gRPC's own.
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

// Returns the value of "nearfield-request-id", or empty. Requires: a finished call.
std::string RequestIdIn(const grpc::ClientContext& context);

}  // namespace nearfield::client
