// Call: the request id, deadline, log line and final status of one call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/call_context.h"
#include "server/rpc/server_state.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/search_request.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

// Member of an ActiveCall. Finish is called once and ends the call; or Close, if the context ends
// the call in another way. The destructor writes the log line.
class Call {
 public:
  // `state` outlives the call.
  Call(ServerState* state, CallContext* context, const char* method);
  ~Call();

  // Registers the call as in flight. Errors: as ServerState::Enter; refusal().
  absl::StatusOr<Core*> Enter();
  // Returns the status with which the transport refuses the call, or InvalidArgument if the
  // caller's name is too long; else OK.
  const absl::Status& refusal() const { return refusal_; }
  // Finds a collection that the key of the call covers: FindCollection.
  absl::StatusOr<NamedCollectionPtr> Find(const Core& core, const std::string& name) const;
  // Returns the key of the call; null: it may do everything.
  const KeyPtr& key() const { return key_; }
  // Checks that the key is still valid. A call that sends many replies checks it before each of
  // them; the transport checks it for each request. Errors: Unauthenticated.
  absl::Status CheckKey() const;
  // Sets the wake function of a call that waits for its client: see LiveCalls::SetWake.
  void SetWake(std::function<void()> wake);

  // Returns the end for the caller. Counts the call and keeps the status for the log, unless the
  // transport does so by CallEnd::settle.
  CallEnd Close(const absl::Status& status);
  // Closes the call and ends it. The call may be destroyed before this returns.
  void Finish(const absl::Status& status) { context_->Finish(Close(status)); }

  ServerState* state() const { return state_; }
  std::optional<TimePoint> deadline() const { return deadline_; }
  // Returns the name under which the call gets its share of the device.
  const std::string& caller() const { return caller_; }
  // Returns the thread that began the call and the passes that it lends itself for.
  LentThread lent_thread() const;
  // Returns CallFacts::interrupted.
  const std::function<bool()>& interrupted() const { return context_->facts().interrupted; }
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
  CallContext* const context_;
  const TimePoint begin_;
  std::optional<TimePoint> deadline_;
  std::string caller_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const KeyPtr key_;
  const CancelFlag cancelled_ = MakeCancelFlag();
  const LiveCalls::Place live_;
  absl::Status refusal_;
  absl::Status status_;
  bool entered_ = false;
  UnreadReplies::Watch watch_;
};

}  // namespace nearfield::server
