// UnaryCall: a unary call whose work runs on a worker: threads of the transport never wait for the
// engine.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/rpc/call.h"
#include "server/rpc/kept_epoch.h"

namespace nearfield::server {

class UnaryCall final : public ActiveCall {
 public:
  // Fills the response, which is valid as long as the call. Holds the request until it has run.
  using Work = std::function<absl::Status(Core& core, Call& call)>;

  // Runs `job` and then `after` on threads of its own. After an error neither runs.
  using PostJob = std::function<absl::Status(Core& core, std::function<void()> job,
                                             std::function<void()> after)>;

  struct Options {
    ServerState* state = nullptr;
    CallContext* context = nullptr;
    // The reply, whose bytes are reserved after the work. Null if the work reserves them before, if
    // the reply is small, or if the call changes something, because a refusal would hide the
    // change.
    google::protobuf::Message* response = nullptr;
    const char* method = nullptr;
    WorkerPool Core::*pool = nullptr;  // the pool that runs the work
    // Posts the work in place of the pool: `job`, then `after`. May be empty.
    PostJob post = nullptr;
    // Runs before the work, on the pool of the filters, so that filters do not delay other calls.
    // May be empty.
    Work choose = nullptr;
    // The call waits for min_epoch of this collection before the work.
    std::string collection = {};
    WantedEpochs epochs = {};
    // The incarnation of the epochs; checked first.
    std::optional<uint64_t> incarnation = {};
    // Checks the arguments before that wait, so that a call that can never succeed does not wait.
    std::function<absl::Status(const NamedCollection& named, const Call& call)> check = nullptr;
  };
  // Starts a call. Refuses it if the server does not serve or the pool is full.
  static ActiveCallPtr Run(const Options& options, Work work);
  // Called by Run.
  explicit UnaryCall(const Options& options)
      : call_(options.state, options.context, options.method), response_(options.response) {}

  void OnCancel() override { call_.cancelled()->store(true); }

 private:
  absl::Status Start(const Options& options, Work work);
  absl::Status Post(Core* core, const Options& options, Work work);
  absl::Status PostWork(Core* core, const PostJob& post, Work work);
  // Reserves the bytes of the reply. Errors: ResourceExhausted; then the reply is cleared.
  absl::Status ReserveReply();

  Call call_;
  google::protobuf::Message* const response_;  // may be null
  absl::Status status_;                        // result of the work
};

}  // namespace nearfield::server
