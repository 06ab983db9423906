// InProcessCall and InProcessStream: calls of a NearfieldService without a transport. The test's
// thread waits for their events.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/calls/call_context.h"

namespace nearfield::server {

// `Context`: CallContext or a stream derived from it.
template <typename Context>
class InProcessCall : public Context {
 public:
  explicit InProcessCall(CallFacts facts = {}) : facts_(std::move(facts)) {}

  // Ends as a transport does: the service keeps what the reply needs until now.
  ~InProcessCall() override {
    if (call_ == nullptr) return;
    AwaitEnd();
    call_->OnDone();
    call_ = nullptr;
  }

  // Sets the call that a method of the service has returned.
  void Bind(ActiveCallPtr call) { call_ = std::move(call); }
  void Cancel() { call_->OnCancel(); }

  CallEnd AwaitEnd() {
    MutexLock lock(mutex_);
    while (!end_.has_value()) changed_.Wait(lock);
    return *end_;
  }

  const CallFacts& facts() const override { return facts_; }
  void Finish(const CallEnd& end) override {
    const MutexLock lock(mutex_);
    end_ = end;
    changed_.NotifyAll();
  }
  void Abort() override {}  // the tests take every reply

 protected:
  Mutex mutex_;
  CondVar changed_;
  ActiveCallPtr call_;
  std::optional<CallEnd> end_ ABSL_GUARDED_BY(mutex_);

 private:
  const CallFacts facts_;
};
using InProcessUnary = InProcessCall<CallContext>;

// `Context`: ReplyStream<Response>, or MessageStream for InProcessMessages.
template <typename Context, typename Response>
class InProcessReplies : public InProcessCall<Context> {
 public:
  using InProcessCall<Context>::InProcessCall;

  // Waits for the next reply. Returns false if there is none.
  bool Next(Response* response) {
    {
      MutexLock lock(this->mutex_);
      while (written_ == nullptr && !this->end_.has_value()) this->changed_.Wait(lock);
      if (written_ == nullptr) return false;
      *response = *std::exchange(written_, nullptr);
      if (this->end_.has_value()) return true;
    }
    this->call_->OnWriteDone(true);
    return true;
  }

  void Write(const Response& response) override {
    const MutexLock lock(this->mutex_);
    written_ = &response;
    this->changed_.NotifyAll();
  }
  void WriteAndFinish(const Response& response, const CallEnd& end) override {
    const MutexLock lock(this->mutex_);
    written_ = &response;
    this->end_ = end;
    this->changed_.NotifyAll();
  }

 private:
  const Response* written_ ABSL_GUARDED_BY(this->mutex_) = nullptr;
};

template <typename Request, typename Response>
class InProcessMessages : public InProcessReplies<MessageStream<Request, Response>, Response> {
 public:
  using InProcessReplies<MessageStream<Request, Response>, Response>::InProcessReplies;

  // Waits until the service reads, and sends it the request; null: there are no more requests.
  // Returns false if the call ended before.
  bool Send(const Request* request) {
    {
      MutexLock lock(this->mutex_);
      while (!reading_ && !this->end_.has_value()) this->changed_.Wait(lock);
      if (!std::exchange(reading_, false)) return false;
      if (request != nullptr) incoming_ = std::make_shared<const Request>(*request);
    }
    this->call_->OnReadDone(request != nullptr);
    return true;
  }

  void Read() override {
    const MutexLock lock(this->mutex_);
    reading_ = true;
    this->changed_.NotifyAll();
  }
  Incoming<Request> Take() override {
    const MutexLock lock(this->mutex_);
    return [request = std::move(incoming_)] {
      return absl::StatusOr<std::shared_ptr<const Request>>(request);
    };
  }

 private:
  bool reading_ ABSL_GUARDED_BY(this->mutex_) = false;
  std::shared_ptr<const Request> incoming_ ABSL_GUARDED_BY(this->mutex_);
};

}  // namespace nearfield::server
