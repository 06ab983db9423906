// A unary call whose work runs on a worker, so that gRPC's threads never wait for the engine.
#ifndef NEARFIELD_SERVER_SERVICE_UNARY_CALL_H_
#define NEARFIELD_SERVER_SERVICE_UNARY_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/service/call.h"

namespace nearfield::server {

class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // Fills the response, which lives as long as the call. Holds the request, until it has run.
  using Work = std::function<absl::Status(Core& core, Call& call)>;

  struct Options {
    ServerState* state = nullptr;
    grpc::CallbackServerContext* context = nullptr;
    // Its bytes are reserved once it is made. Null where the work reserves them before, the reply
    // is small, or the call changes something, which a refusal would hide.
    google::protobuf::Message* response = nullptr;
    const char* method = nullptr;
    WorkerPool Core::*pool = nullptr;  // where the work runs
    // Runs before the work, on the pool of the filters: a filter holds up no call without one. May
    // be empty.
    Work choose = nullptr;
    // Waited for before the work: an epoch of this collection.
    std::string collection = {};
    std::optional<uint64_t> min_epoch = {};
    // Of which min_epoch is; checked first.
    std::optional<uint64_t> incarnation = {};
    // Checks the arguments before that wait, so that a call that can never succeed does not wait.
    std::function<absl::Status(const NamedCollection& named)> check = nullptr;
  };
  // Owns itself; refuses where the server does not serve, or the pool is full.
  static grpc::ServerUnaryReactor* Run(const Options& options, Work work);

  void OnCancel() override { call_.cancelled()->store(true); }
  void OnDone() override { delete this; }

 private:
  explicit UnaryCall(const Options& options)
      : call_(options.state, options.context, options.method), response_(options.response) {}
  absl::Status Start(const Options& options, Work work);
  absl::Status Post(Core* core, const Options& options, Work work);
  absl::Status PostWork(Core* core, WorkerPool* pool, Work work);
  // Errors: ResourceExhausted, with the reply cleared.
  absl::Status ReserveReply();

  Call call_;
  google::protobuf::Message* const response_;  // may be null
  absl::Status status_;                        // of the work
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_UNARY_CALL_H_
