// CallContext: one call as its transport sees it. ActiveCall: the same call as the service sees it.
// gRPC's adapter implements the contexts; so may a caller in the same process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/security/access_control.h"

namespace nearfield::server {

// CallFacts::pass_us_max of a thread that does nothing else until the call ends.
inline constexpr double kAnyPass = std::numeric_limits<double>::infinity();

// The facts about a call that its transport knows when it begins.
struct CallFacts {
  std::string request_id;    // as the caller sent it; empty or invalid: the service draws one
  std::string caller_name;   // as the caller sent it; may be empty
  std::string trace_parent;  // W3C traceparent as the caller sent it; may be empty
  std::string peer;          // address of the caller: "ipv4:127.0.0.1:51234"
  std::optional<std::chrono::system_clock::time_point> deadline;
  // A search may use the thread that begins the call for a pass that is predicted to take at most
  // this; 0: for none. If it is not kAnyPass, only while no other call is in flight.
  double pass_us_max = 0;
  // Polled by a thread in this process that waits for the call or runs its pass, at intervals of
  // SearchTicket::kInterruptPoll: true cancels the call. May be null.
  std::function<bool()> interrupted;
  // The key that the call was made with; null: the call may do everything.
  KeyPtr key;
  const AccessControl* control = nullptr;  // that checked the key; null: the call has no key
  bool audited = false;                    // the call gets an access line in the log
  // The transport may replace the end of a call, and calls CallEnd::settle.
  bool settles_end = false;
  // Not OK: the transport refuses the call, which then only ends with it.
  absl::Status status;
};

// The end of a call, for its caller.
struct CallEnd {
  absl::Status status;
  std::string request_id;
  std::optional<int64_t> retry_after_ms;
  // Counts the call, and keeps the status that its caller gets for the log. If
  // CallFacts::settles_end, the transport calls it once, before it sends the end and before OnDone;
  // else it is null.
  std::function<void(const absl::Status& sent)> settle = nullptr;
};

// Implemented by a transport. Valid until ActiveCall::OnDone has returned and the transport has
// released the ActiveCall. The service calls the functions on any thread, also before its method
// returns, and may hold its locks: they must not call the ActiveCall before they return.
class CallContext {
 public:
  virtual ~CallContext() = default;

  virtual const CallFacts& facts() const = 0;
  // Ends the call; called once. The response of a unary call is complete if the status is OK.
  virtual void Finish(const CallEnd& end) = 0;
  // Cancels the call because its caller does not take a reply. The service still calls Finish.
  virtual void Abort() = 0;
};

// The context of a call that sends many replies. At most one write is in progress.
template <typename Response>
class ReplyStream : public CallContext {
 public:
  // Sends a reply, which stays valid until ActiveCall::OnWriteDone.
  virtual void Write(const Response& response) = 0;
  // Sends the last reply, which stays valid until ActiveCall::OnDone, and ends the call.
  virtual void WriteAndFinish(const Response& response, const CallEnd& end) = 0;
};

// A request that was received, but perhaps not decoded yet. Called once, on any thread, even after
// ActiveCall::OnDone; it may take long. The transport may bind a reservation of memory to the
// request, until that is released.
// Errors: InvalidArgument (cannot be decoded), ResourceExhausted (no memory for it).
template <typename Request>
using Incoming = std::function<absl::StatusOr<std::shared_ptr<const Request>>()>;

// The context of a call that also receives many requests. At most one read is in progress. The
// caller may send its next request only while there is one.
template <typename Request, typename Response>
class MessageStream : public ReplyStream<Response> {
 public:
  // Waits for the next request. ActiveCall::OnReadDone follows.
  virtual void Read() = 0;
  // Returns the request that was read. Called once for each, before the next Read.
  virtual Incoming<Request> Take() = 0;
};

// Implemented by the service. The transport holds it until the call is over and the caller has the
// reply: until then it keeps the reservations of memory. Thread-safe.
class ActiveCall {
 public:
  ActiveCall() = default;
  virtual ~ActiveCall() = default;
  ActiveCall(const ActiveCall&) = delete;
  ActiveCall& operator=(const ActiveCall&) = delete;

  // The caller has cancelled the call, or its deadline has passed. The call still ends with
  // CallContext::Finish.
  virtual void OnCancel() = 0;
  // The read is over. `ok`: Take returns a request; else there are no more requests.
  virtual void OnReadDone(bool /*ok*/) {}
  // The write is over: the caller takes another reply if `ok`, and none any more if not.
  virtual void OnWriteDone(bool /*ok*/) {}
  // The last event, after Finish. The context is not used afterwards.
  virtual void OnDone() {}
};
using ActiveCallPtr = std::shared_ptr<ActiveCall>;

}  // namespace nearfield::server
