// Call: the request id, deadline, log line and final status of one call.
#ifndef NEARFIELD_SERVER_SERVICE_CALL_H_
#define NEARFIELD_SERVER_SERVICE_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/search_request.h"
#include "server/service/server_state.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

// Returns the caller's name, under which a call gets its share of the device and of the ledger.
std::string CallerOf(const grpc::CallbackServerContext& context);

// Maximum bytes of a call's metadata, counted as in HTTP/2.
inline constexpr size_t kMetadataBytesMax = 16 * 1024;

// Lives as long as the reactor of the call. Close is called once, before Finish, and counts the
// call. The destructor writes the log line.
class Call {
 public:
  // Both outlive the call.
  Call(ServerState* state, grpc::CallbackServerContext* context, const char* method);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Registers the call as in flight. Errors: as ServerState::Enter; ResourceExhausted (metadata);
  // InvalidArgument (the caller's name).
  absl::StatusOr<Core*> Enter();
  // Returns ResourceExhausted if the client sent more than kMetadataBytesMax, InvalidArgument if
  // its name is too long.
  const absl::Status& metadata_status() const { return metadata_status_; }
  // Sets the wake function of a call that waits for its client: see LiveCalls::SetWake.
  void SetWake(std::function<void()> wake);

  // Sets the trailing metadata, keeps the status for the log, and returns that for the client.
  grpc::Status Close(const absl::Status& status);

  ServerState* state() const { return state_; }
  std::optional<TimePoint> deadline() const { return deadline_; }
  // Returns the name under which the call gets its share of the device.
  const std::string& caller() const { return caller_; }
  const CancelFlag& cancelled() const { return cancelled_; }
  // Returns whether the call was cancelled or its deadline has passed.
  bool Dead() const;
  absl::Status DeadStatus() const;
  // Marks that a reply is being sent to its reader. Unless ReplyTaken or the end of the call
  // follows within reply_unread_ms, the call is cancelled. Close calls it for the final reply.
  void WatchReply();
  // Marks that the reply was taken. Requires: the caller holds no lock that OnCancel takes. OnDone
  // calls it if the call may live longer.
  void ReplyTaken() { watch_.End(); }
  RequestRecord record;
  MemoryHolds holds;  // for a call with one request and one reply at a time
  // The collection that the call named, if it waited for an epoch of it. The name is resolved only
  // once, because an alias may move meanwhile.
  std::shared_ptr<NamedCollection> named;

 private:
  ServerState* const state_;
  grpc::CallbackServerContext* const context_;
  const TimePoint begin_;
  std::optional<TimePoint> deadline_;
  std::string caller_;
  const CancelFlag cancelled_ = MakeCancelFlag();
  const LiveCalls::Place live_;
  absl::Status metadata_status_;
  absl::Status status_;
  bool entered_ = false;
  UnreadReplies::Watch watch_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_CALL_H_
