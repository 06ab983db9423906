// Client::Core: the connection of a Client, and the implementation of its unary calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "client/cpp/identity.h"
#include "client/cpp/retry.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "nearfield/client/client.h"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/ingest.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"

namespace nearfield::client {

using RetrievalStub = v1::Retrieval::Stub;
using IngestStub = v1::Ingest::Stub;
using AdminStub = v1::Admin::Stub;
using HealthStub = grpc::health::v1::Health::Stub;

// Returns a Client whose waits use `clock`, which must outlive it. It has no credentials.
Client MakeClient(const ClientOptions& options, Clock* clock);

class Client::Core {
 public:
  Core(const ClientOptions& options, Clock* clock, const Identity& identity);

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
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const std::type_identity_t<Request>& request, const CallSpec& spec,
                                std::string* request_id = nullptr) {
    Response response;
    const absl::Status status = Run(
        spec,
        [&](grpc::ClientContext* context) {
          response.Clear();
          return (stub<Stub>().*method)(context, request, &response);
        },
        request_id);
    if (!status.ok()) return status;
    return response;
  }

  // Adds the caller's name, its key and the metadata of the options to a context. Call it before
  // the context is used.
  void Introduce(grpc::ClientContext* context) const;
  // Returns the retry plan of a call that begins now.
  RetryPlan PlanFor(const CallSpec& spec) const;
  // Returns status and retry hint of a finished call.
  Attempt Outcome(const grpc::Status& status, const grpc::ClientContext& context) const;
  // Refuses a request that exceeds the server's limit, with a better message than gRPC's own.
  absl::Status CheckRequestBytes(uint64_t bytes, const CallSpec& spec);
  absl::StatusOr<Limits> GetLimits(const CallSpec& spec);

  // Blocks until there may be another connection than the one that a call just failed on, or until
  // `until`. Returns false if there is none.
  bool AwaitConnection(std::chrono::system_clock::time_point until) const;

  const ClientOptions& options() const { return options_; }
  Clock& clock() { return *clock_; }
  template <typename Stub>
  Stub& stub() {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }

 private:
  absl::Status Run(const CallSpec& spec,
                   const std::function<grpc::Status(grpc::ClientContext*)>& call,
                   std::string* request_id);

  ClientOptions options_;
  Clock* clock_;
  const std::string authorization_;  // empty: none
  std::shared_ptr<grpc::Channel> channel_;
  std::tuple<std::unique_ptr<RetrievalStub>, std::unique_ptr<IngestStub>,
             std::unique_ptr<AdminStub>, std::unique_ptr<HealthStub>>
      stubs_;
  std::mutex limits_mutex_;
  std::optional<Limits> limits_;
};

// Returns the spec of a call that is retried, with the deadline of `options`.
template <typename Options>
Client::Core::CallSpec Retried(const Options& options) {
  return {.deadline = options.deadline};
}
// Returns the spec of a call that must not be repeated.
inline Client::Core::CallSpec Once(const CallOptions& options) {
  return {.deadline = options.deadline, .idempotent = false};
}

// Returns the value of "nearfield-request-id", or empty. Requires: a finished call.
std::string RequestIdIn(const grpc::ClientContext& context);

}  // namespace nearfield::client
