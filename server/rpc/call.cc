#include "server/rpc/call.h"

#include <array>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "server/rpc/caller_name.h"
#include "server/rpc/find_collection.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"
#include "server/telemetry/trace_context.h"

namespace nearfield::server {
namespace {

constexpr int64_t kUnavailableRetryMs = 1000;
constexpr auto kDeadlineMax = std::chrono::hours(24 * 365);  // a later one is none

// Returns kInspection for methods that a server that is not trusted any more still answers. Callers
// do not rely on their answers.
ServerState::Purpose PurposeOf(const std::string& method) {
  constexpr std::array kInspecting = {"Verify",         "GetCollection", "ListCollections",
                                      "GetCapacity",    "GetCounters",   "Count",
                                      "CreateSnapshot", "ListSnapshots", "ListUploads"};
  return absl::c_linear_search(kInspecting, method) ? ServerState::Purpose::kInspection
                                                    : ServerState::Purpose::kService;
}

}  // namespace

Call::Call(ServerState* state, CallContext* context, const char* method)
    : state_(state),
      context_(context),
      begin_(state->clock().Now()),
      key_(context->facts().key),
      live_(state->live_calls().Add(cancelled_)),
      refusal_(context->facts().status) {
  const CallFacts& facts = context->facts();
  record.method = method;
  record.request_id = RequestId(facts.request_id);
  record.trace = ParseTraceParent(facts.trace_parent);
  record.peer = facts.peer;
  record.audited = facts.audited;
  if (key_ != nullptr) {
    record.principal = key_->principal;
    record.key_id = key_->id;
  }
  if (refusal_.ok()) refusal_ = CheckCallerName(facts.caller_name);
  caller_ = CallerOf(facts);
  if (facts.deadline.has_value()) {
    const auto left = *facts.deadline - std::chrono::system_clock::now();
    if (left <= kDeadlineMax) deadline_ = begin_ + left;
  }
}

Call::~Call() {
  watch_.End();
  state_->request_log().Record(record, status_);
  state_->live_calls().Remove(live_);
  if (entered_) state_->Leave();
}

absl::StatusOr<NamedCollectionPtr> Call::Find(const Core& core, const std::string& name) const {
  return FindCollection(core.catalog, key_, name);
}

LentThread Call::lent_thread() const {
  const CallFacts& facts = context_->facts();
  // While several calls are in flight, the engine thread is awake, and would be woken again after
  // a pass on another thread. Only a caller that waits lends its thread in any case.
  const bool lends = facts.pass_us_max == kAnyPass || state_->OneCall();
  return {.id = thread_, .pass_us_max = lends ? facts.pass_us_max : 0};
}

absl::Status Call::CheckKey() const {
  const AccessControl* const control = context_->facts().control;
  return key_ == nullptr || control == nullptr ? absl::OkStatus() : control->CheckStillValid(key_);
}

void Call::SetWake(std::function<void()> wake) {
  state_->live_calls().SetWake(live_, std::move(wake));
}

absl::StatusOr<Core*> Call::Enter() {
  if (!refusal_.ok()) return refusal_;
  absl::StatusOr<Core*> core = state_->Enter(PurposeOf(record.method));
  entered_ = core.ok();
  return core;
}

CallEnd Call::Close(const absl::Status& given) {
  // The end of the drain cancels calls whose callers still wait.
  const bool ended = absl::IsCancelled(given) && state_->live_calls().cancelled();
  status_ = ended ? WithReason(WithRetryAfter(
                                   absl::UnavailableError("the server ended before the call did"),
                                   kUnavailableRetryMs),
                               "draining")
                  : given;
  record.total_us = MicrosBetween(begin_, state_->clock().Now());
  WatchReply();
  CallEnd end = {.status = status_, .request_id = record.request_id};
  // Count before the client receives the status.
  const auto settle = [this](const absl::Status& sent) {
    status_ = sent;
    state_->call_counter().Record(record, sent);
  };
  if (context_->facts().settles_end) {
    end.settle = settle;
  } else {
    settle(status_);
  }
  if (status_.ok()) return end;
  end.retry_after_ms = RetryAfterMs(status_);
  if (absl::IsUnavailable(status_) && !end.retry_after_ms.has_value()) {
    end.retry_after_ms = kUnavailableRetryMs;  // from the engine: the device may be lost
    state_->Suspect();
  }
  return end;
}

void Call::WatchReply() {
  watch_.Begin(&state_->unread_replies(), [context = context_] { context->Abort(); });
}

bool Call::Dead() const { return !DeadStatus().ok(); }

absl::Status Call::DeadStatus() const {
  // Check the deadline first, because gRPC cancels a call whose deadline has passed.
  if (deadline_.has_value() && state_->clock().Now() >= *deadline_) {
    return absl::DeadlineExceededError("the deadline passed");
  }
  if (cancelled_->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the caller cancelled the call");
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server
