// One call: its request id, deadline, log line and final status.
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
#include "server/batching/clock.h"
#include "server/batching/search_request.h"
#include "server/service/server_state.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

// By which name a call takes its share of the device and of the ledger.
std::string CallerOf(const grpc::CallbackServerContext& context);

// Bytes of a call's metadata, counted as HTTP/2 counts them.
inline constexpr size_t kMetadataBytesMax = 16 * 1024;

// Lives as long as the reactor of the call. Close is called once, before Finish, and counts the
// call; the destructor writes the log line.
class Call {
 public:
  // Both outlive the call.
  Call(ServerState* state, grpc::CallbackServerContext* context, const char* method);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Makes the call one in flight. Errors: as ServerState::Enter; ResourceExhausted (metadata);
  // InvalidArgument (the name that the caller gives itself).
  absl::StatusOr<Core*> Enter();
  // ResourceExhausted where the client sent more than kMetadataBytesMax, InvalidArgument where the
  // name that it gives itself is too long.
  const absl::Status& metadata_status() const { return metadata_status_; }
  // For a call that waits for its client: see LiveCalls::SetWake.
  void SetWake(std::function<void()> wake);

  // Sets the trailing metadata and keeps the status for the log; returns what the client is told.
  grpc::Status Close(const absl::Status& status);

  ServerState* state() const { return state_; }
  std::optional<TimePoint> deadline() const { return deadline_; }
  // By which it takes its share of the device.
  const std::string& caller() const { return caller_; }
  const CancelFlag& cancelled() const { return cancelled_; }
  // Cancelled, or past the deadline: nobody waits any more.
  bool Dead() const;
  absl::Status DeadStatus() const;
  // Its final reply, or the next of a stream, is on its way to its reader: unless ReplyTaken or
  // the end of the call comes within reply_unread_ms, the call is cancelled. Close says so of the
  // final one.
  void WatchReply();
  // Requires that the caller holds no lock that OnCancel takes. Called in OnDone where the call may
  // live on.
  void ReplyTaken() { watch_.End(); }
  RequestRecord record;
  MemoryHolds holds;  // of a call with one request and one reply at a time
  // The collection that the call named, where it had to wait for an epoch of it: a name is looked
  // up once, since an alias may have moved meanwhile.
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
