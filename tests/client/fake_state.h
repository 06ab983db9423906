// FakeState: the state shared by the services of the fake server. Only its sources include this
// header, because it includes gRPC.
#ifndef NEARFIELD_TESTS_CLIENT_FAKE_STATE_H_
#define NEARFIELD_TESTS_CLIENT_FAKE_STATE_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "client/formats/text.h"
#include "tests/client/fake_server.h"
#include "tests/client/fake_store.h"

namespace nearfield::client {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// The state of an upload with a token.
struct FakeUpload {
  std::vector<FakeRow> rows;
  uint64_t blocks_count = 0;
  std::optional<v1::UploadCommitted> committed;
};

// State shared by the services, guarded by one lock.
struct FakeState {
  std::mutex mutex;
  std::condition_variable changed;
  FakeStore store;
  FakeServerScript script;
  std::map<std::string, std::deque<Refusal>> refusals;
  std::map<std::string, int> calls;
  std::map<std::string, std::vector<int64_t>> deadlines_ms;
  std::map<std::string, std::string> last;     // serialized requests
  std::map<std::string, std::string> callers;  // from the last call's metadata
  std::vector<uint64_t> block_bytes;
  std::vector<v1::UploadBlock> blocks;
  std::map<std::string, FakeUpload> uploads;  // by token
  int uploads_abandoned = 0;
  bool serving = true;
  bool stopping = false;
  uint64_t requests = 0;

  // Counts the call, adds its request id, and applies the script. Requires: the lock is held.
  grpc::Status Enter(const std::string& method, grpc::ServerContext* context) {
    ++calls[method];
    const auto caller = context->client_metadata().find("nearfield-caller");
    callers[method] = caller == context->client_metadata().end()
                          ? ""
                          : std::string(caller->second.data(), caller->second.size());
    const auto left = context->deadline() - std::chrono::system_clock::now();
    deadlines_ms[method].push_back(
        std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
    context->AddTrailingMetadata("nearfield-request-id", Cat("fake-", ++requests));
    std::deque<Refusal>& waiting = refusals[method];
    if (waiting.empty()) return grpc::Status::OK;
    const Refusal refusal = waiting.front();
    waiting.pop_front();
    return Apply(refusal, context);
  }

  static grpc::Status Apply(const Refusal& refusal, grpc::ServerContext* context) {
    if (refusal.retry_after_ms)
      context->AddTrailingMetadata("retry-after-ms", *refusal.retry_after_ms);
    return ToGrpc(refusal.status);
  }
};

// Runs a unary handler under the lock, after the script. Records the request.
template <typename Handler>
grpc::Status Handle(FakeState& state, const char* method, grpc::ServerContext* context,
                    const Handler& handler,
                    const google::protobuf::MessageLite* request = nullptr) {
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (request != nullptr) state.last[method] = request->SerializeAsString();
  const grpc::Status refused = state.Enter(method, context);
  return refused.ok() ? ToGrpc(handler()) : refused;
}

}  // namespace nearfield::client

#endif  // NEARFIELD_TESTS_CLIENT_FAKE_STATE_H_
