// WaitingCall, WaitingReplies and WaitingMessages: the contexts of calls by a caller in this
// process, whose threads wait for the events of a call.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/rpc/call_context.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// `Context`: CallContext or a stream derived from it.
// Thread-safe, except that Bind comes first.
template <typename Context>
class WaitingCall : public Context {
 public:
  explicit WaitingCall(CallFacts facts = {}) : facts_(std::move(facts)) {
    if (facts_.interrupted != nullptr) {
      poll_at_ = std::chrono::steady_clock::now() + SearchTicket::kInterruptPoll;
    }
    if (!facts_.deadline.has_value()) return;
    // A wait until a later time than this could overflow.
    constexpr std::chrono::hours kWaitMax(24 * 365);
    const auto left = *facts_.deadline - std::chrono::system_clock::now();
    if (left < kWaitMax) deadline_ = std::chrono::steady_clock::now() + left;
  }
  ~WaitingCall() override { Release(); }
  WaitingCall(const WaitingCall&) = delete;
  WaitingCall& operator=(const WaitingCall&) = delete;

  // Sets the call that a method of the service has returned.
  void Bind(const ActiveCallPtr& call) {
    bool cancelled = false;
    {
      const MutexLock lock(mutex_);
      call_ = call;
      cancelled = cancelled_;
    }
    if (cancelled) call->OnCancel();
  }

  // Cancels the call, unless it is released. It still ends.
  void Cancel() {
    const MutexLock events(events_mutex_);
    ActiveCallPtr call;
    {
      const MutexLock lock(mutex_);
      cancelled_ = true;
      call = call_;
      changed_.NotifyAll();
    }
    if (call != nullptr) call->OnCancel();
  }

  // Waits for the end of the call. At its deadline the call is cancelled.
  CallEnd AwaitEnd() {
    MutexLock lock(mutex_);
    while (!end_.has_value()) {
      if (MustAct()) {
        lock.Unlock();
        Act();
        lock.Lock();
      } else {
        WaitForChange(lock);
      }
    }
    return *end_;
  }

  // Ends the call as a transport does: lets it settle, then frees what the service keeps for its
  // last reply. Called by the destructor, or earlier to free it earlier.
  void Release() {
    {
      const MutexLock lock(mutex_);
      if (call_ == nullptr) return;
    }
    Settle();
    const MutexLock events(events_mutex_);
    ActiveCallPtr call;
    {
      const MutexLock lock(mutex_);
      call = std::exchange(call_, nullptr);
    }
    if (call != nullptr) call->OnDone();
  }

  const CallFacts& facts() const override { return facts_; }
  void Finish(const CallEnd& end) override {
    const MutexLock lock(mutex_);
    end_ = end;
    changed_.NotifyAll();
  }
  // The thread that waits next cancels the call: this thread may hold locks of the service.
  void Abort() override {
    const MutexLock lock(mutex_);
    aborted_ = true;
    changed_.NotifyAll();
  }

 protected:
  // Returns true if the thread that waits must call Act first: at each time at which Act has
  // something to do, after Abort, and for the events of a cancelled call.
  bool MustAct() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (cancelled_) return call_ != nullptr && (unread_ || reading_);
    return aborted_ || (next_event() != kNever && std::chrono::steady_clock::now() >= next_event());
  }
  // Polls CallFacts::interrupted. Cancels the call if it is interrupted, after Abort, or if its
  // deadline has passed. Refuses the events that a cancelled call waits for: its caller may never
  // read or send again.
  void Act() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (RefuseEventsIfCancelled()) return;
    // Without the lock: the function may use the call.
    const bool interrupted = facts_.interrupted != nullptr && facts_.interrupted();
    {
      const MutexLock lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      if (facts_.interrupted != nullptr) poll_at_ = now + SearchTicket::kInterruptPoll;
      if (!interrupted && !aborted_ && now < deadline_) return;
    }
    Cancel();
  }
  // Returns after a change, or when MustAct may have become true.
  void WaitForChange(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (cancelled_ || next_event() == kNever) return changed_.Wait(lock);
    changed_.WaitUntil(lock, next_event());
  }
  // Returns the call for an event, or null if it is released.
  ActiveCallPtr call() {
    const MutexLock lock(mutex_);
    return call_;
  }

  Mutex mutex_;
  CondVar changed_;
  std::optional<CallEnd> end_ ABSL_GUARDED_BY(mutex_);
  bool unread_ ABSL_GUARDED_BY(mutex_) = false;   // a reply was written and is not read yet
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // the service waits for a request

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  static constexpr SteadyTime kNever = SteadyTime::max();
  SteadyTime next_event() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::min(deadline_, poll_at_);
  }

  // Returns false if the call is not cancelled.
  bool RefuseEventsIfCancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    ActiveCallPtr call;
    bool unread = false;
    bool reading = false;
    {
      const MutexLock lock(mutex_);
      if (!cancelled_) return false;
      call = call_;
      if (call == nullptr) return true;
      unread = std::exchange(unread_, false);
      reading = std::exchange(reading_, false);
    }
    if (unread) call->OnWriteDone(false);
    if (reading) call->OnReadDone(false);
    return true;
  }

  // Waits until the call has ended. Refuses the events that the service still waits for.
  void Settle() {
    const ActiveCallPtr call = this->call();
    MutexLock lock(mutex_);
    while (!end_.has_value()) {
      const bool unread = std::exchange(unread_, false);
      const bool reading = std::exchange(reading_, false);
      if (!unread && !reading) {
        changed_.Wait(lock);
        continue;
      }
      lock.Unlock();
      if (unread) call->OnWriteDone(false);
      if (reading) call->OnReadDone(false);
      lock.Lock();
    }
    if (!std::exchange(unread_, false)) return;
    // The caller must not take the replies that it has for all of them.
    end_->status = absl::CancelledError("the call was released before its last reply was read");
  }

  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  const CallFacts facts_;
  SteadyTime deadline_ = kNever;
  SteadyTime poll_at_ ABSL_GUARDED_BY(mutex_) = kNever;  // CallFacts::interrupted
  Mutex events_mutex_;  // OnCancel and OnDone, which is the last event; taken before mutex_
  ActiveCallPtr call_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};
using WaitingUnary = WaitingCall<CallContext>;

// `Context`: ReplyStream<Response>, or MessageStream for WaitingMessages. One thread at a time
// reads replies.
template <typename Context, typename Response>
class WaitingReplies : public WaitingCall<Context> {
 public:
  using WaitingCall<Context>::WaitingCall;
  // Before the members of this class are gone.
  ~WaitingReplies() override { this->Release(); }

  // Waits for the next reply and passes it to `use`. Returns false if there is none.
  template <typename Use>
  bool NextAs(const Use& use) {
    const ActiveCallPtr call = this->call();  // keeps the reply
    const Response* reply = nullptr;
    bool last = false;
    {
      MutexLock lock(this->mutex_);
      while (!this->unread_ && !this->end_.has_value()) {
        if (this->MustAct()) {
          lock.Unlock();
          this->Act();
          lock.Lock();
        } else {
          this->WaitForChange(lock);
        }
      }
      if (std::exchange(this->unread_, false)) reply = written_;
      last = this->end_.has_value();
    }
    if (call == nullptr || reply == nullptr) return false;
    try {
      use(*reply);
    } catch (...) {  // the service waits for it
      if (!last) call->OnWriteDone(false);
      throw;
    }
    if (!last) call->OnWriteDone(true);
    return true;
  }
  bool Next(Response* response) {
    return NextAs([response](const Response& reply) { *response = reply; });
  }

  void Write(const Response& response) override {
    const MutexLock lock(this->mutex_);
    written_ = &response;
    this->unread_ = true;
    this->changed_.NotifyAll();
  }
  void WriteAndFinish(const Response& response, const CallEnd& end) override {
    const MutexLock lock(this->mutex_);
    written_ = &response;
    this->unread_ = true;
    this->end_ = end;
    this->changed_.NotifyAll();
  }

 private:
  const Response* written_ ABSL_GUARDED_BY(this->mutex_) = nullptr;
};

// One thread at a time sends requests; another one may read the replies.
template <typename Request, typename Response>
class WaitingMessages : public WaitingReplies<MessageStream<Request, Response>, Response> {
 public:
  using WaitingReplies<MessageStream<Request, Response>, Response>::WaitingReplies;
  ~WaitingMessages() override { this->Release(); }

  // Waits until the service reads, and sends it the request that `make` returns; null: there are no
  // more requests. Returns false if the call ended before.
  template <typename Make>
  bool SendAs(const Make& make) {
    const ActiveCallPtr call = this->call();
    if (call == nullptr || !AwaitReading()) return false;
    Incoming<Request> request = make();
    const bool more = request != nullptr;
    {
      const MutexLock lock(this->mutex_);
      // Absent if the call was released meanwhile.
      if (!std::exchange(this->reading_, false)) return false;
      incoming_ = std::move(request);
    }
    call->OnReadDone(more);
    return true;
  }
  bool Send(const Incoming<Request>& request) {
    return SendAs([&request] { return request; });
  }

  void Read() override {
    const MutexLock lock(this->mutex_);
    this->reading_ = true;
    this->changed_.NotifyAll();
  }
  Incoming<Request> Take() override {
    const MutexLock lock(this->mutex_);
    return std::exchange(incoming_, nullptr);
  }

 private:
  // Returns false if the call ended before it read.
  bool AwaitReading() {
    MutexLock lock(this->mutex_);
    while (!this->reading_ && !this->end_.has_value()) {
      if (this->MustAct()) {
        lock.Unlock();
        this->Act();
        lock.Lock();
      } else {
        this->WaitForChange(lock);
      }
    }
    return !this->end_.has_value();
  }

  Incoming<Request> incoming_ ABSL_GUARDED_BY(this->mutex_);
};

}  // namespace nearfield::server
