// The gRPC side of a call: reactors that are the CallContext of the service's ActiveCall.
//
// gRPC reads the request of a unary method before it calls the handler. A server with keys serves
// every method as one with streams in both directions, which is the same on the wire: the handler
// gets the metadata first, and a call that may not be made ends before its body is read. One more
// event for each call costs about 15% of the rate of the smallest searches, so a server without
// keys, which has nothing to check before, serves unary methods as such.
//
// gRPC catches every exception of its callbacks and forgets it, and the call would never end. So
// none may leave one: the process ends if there is no memory where no call can be refused.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/convert/decode.h"
#include "server/grpc/grpc_bytes.h"
#include "server/rpc/call_context.h"
#include "server/rpc/call_guard.h"
#include "server/rpc/caller_name.h"

namespace nearfield::server {

// Maximum bytes of a call's metadata, counted as in HTTP/2.
inline constexpr size_t kMetadataBytesMax = 16 * 1024;

// Returns the key in the metadata of a call; null if the server has no keys. Errors:
// Unauthenticated.
absl::StatusOr<KeyPtr> KeyIn(const grpc::CallbackServerContext& context,
                             const AccessControl& control);

// Returns the facts in the metadata of a call. Its status is Unauthenticated or PermissionDenied if
// the caller's key does not allow the call, and ResourceExhausted if the client sent more than
// kMetadataBytesMax.
CallFacts FactsOf(const grpc::CallbackServerContext& context, const CallGuard& guard,
                  double pass_us_max);

// Sets the trailing metadata, and returns the status for the client.
grpc::Status StatusOf(const CallEnd& end, grpc::CallbackServerContext* context);

// `Reactor`: gRPC's side. `Context`: CallContext or a stream derived from it. Deletes itself.
template <typename Reactor, typename Context>
class GrpcCall : public Reactor, public Context {
 public:
  // `pass_us_max`: CallFacts::pass_us_max.
  GrpcCall(grpc::CallbackServerContext* context, const CallGuard& guard, double pass_us_max = 0)
      : context_(context), guard_(guard), facts_(FactsOf(*context, guard, pass_us_max)) {}

  // Sets the call of the service to what `start` returns. Events of the call wait meanwhile.
  template <typename Start>
  void Bind(const Start& start) {
    ActiveCallPtr cancelled;
    {
      const MutexLock lock(mutex_);
      call_ = start();
      if (cancelled_) cancelled = call_;
    }
    if (cancelled != nullptr) cancelled->OnCancel();
  }

  const CallFacts& facts() const override { return facts_; }
  void Finish(const CallEnd& end) override { Reactor::Finish(StatusOf(end, context_)); }
  void Abort() override { context_->TryCancel(); }

  void OnCancel() noexcept override {
    ActiveCallPtr call;
    {
      const MutexLock lock(mutex_);
      cancelled_ = true;
      call = call_;
    }
    if (call != nullptr) call->OnCancel();
  }
  void OnDone() noexcept override {
    ActiveCallPtr call;
    {
      const MutexLock lock(mutex_);
      call = std::move(call_);
    }
    call->OnDone();
    call = nullptr;  // before the members that it uses
    delete this;
  }

 protected:
  ActiveCallPtr Bound() {
    const MutexLock lock(mutex_);
    return call_;
  }

  grpc::CallbackServerContext* const context_;
  const CallGuard guard_;
  const CallFacts facts_;

 private:
  Mutex mutex_;
  ActiveCallPtr call_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// A call whose messages are read and written by its own calls.
template <typename Context, typename Response>
class GrpcStreamCall
    : public GrpcCall<grpc::ServerBidiReactor<grpc::ByteBuffer, Response>, Context> {
 public:
  using GrpcStreamCall::GrpcCall::GrpcCall;
  void OnWriteDone(bool ok) noexcept override { this->Bound()->OnWriteDone(ok); }

 protected:
  grpc::ByteBuffer incoming_;  // the message that was read
};

// Sends `Response`s.
template <typename Context, typename Response>
class GrpcWritingCall : public GrpcStreamCall<Context, Response> {
 public:
  using GrpcStreamCall<Context, Response>::GrpcStreamCall;

  void Write(const Response& response) override { this->StartWrite(&response); }
  void WriteAndFinish(const Response& response, const CallEnd& end) override {
    this->StartWriteAndFinish(&response, grpc::WriteOptions(), StatusOf(end, this->context_));
  }
};

// Decodes the only request of a call. Errors: those of DecodeHeld and CheckRequest.
template <typename Request>
absl::StatusOr<std::shared_ptr<const Request>> DecodeRequest(grpc::ByteBuffer* bytes,
                                                             ByteAccount* account,
                                                             const CallGuard& guard,
                                                             const CallFacts& facts) {
  GrpcBytes encoded(bytes);
  auto request = DecodeHeld<Request>(&encoded, {.account = account}, CallerOf(facts));
  encoded.Clear();
  if (!request.ok()) return request;
  const absl::Status allowed = CheckRequest(guard, facts.key, **request);
  if (!allowed.ok()) return allowed;
  return request;
}

// A call with one request. `Base`: GrpcStreamCall or GrpcWritingCall.
template <typename Base, typename Request>
class GrpcOneRequest : public Base {
 public:
  using Base::Base;

  // Starts the call once its request was read and decoded, or has failed.
  using Start = std::function<ActiveCallPtr(absl::StatusOr<std::shared_ptr<const Request>>)>;
  // Reads the request. Call it once.
  void ReadRequest(ByteAccount* account, Start start) {
    account_ = account;
    start_ = std::move(start);
    this->StartRead(&this->incoming_);
  }
  void OnReadDone(bool ok) noexcept override {
    this->Bind([&] {
      if (!ok) return start_(absl::CancelledError("the call ended before its request arrived"));
      return start_(DecodeRequest<Request>(&this->incoming_, account_, this->guard_, this->facts_));
    });
    start_ = nullptr;
  }

 private:
  ByteAccount* account_ = nullptr;
  Start start_;
};

// Maximum predicted time of a pass that a search may run on the thread of gRPC that brings it. gRPC
// has at least two such threads, and one pass runs at a time.
inline constexpr double kGrpcPassUsMax = 1000;

// A unary call whose request gRPC has read.
using GrpcReadUnaryCall = GrpcCall<grpc::ServerUnaryReactor, CallContext>;

// A unary call that reads its request.
template <typename Request, typename Response>
class GrpcUnaryCall final : public GrpcOneRequest<GrpcStreamCall<CallContext, Response>, Request> {
 public:
  using GrpcUnaryCall::GrpcOneRequest::GrpcOneRequest;

  Response* response() { return &response_; }
  void Finish(const CallEnd& end) override {
    if (!end.status.ok()) return GrpcUnaryCall::GrpcOneRequest::Finish(end);
    this->StartWriteAndFinish(&response_, grpc::WriteOptions(), StatusOf(end, this->context_));
  }

 private:
  Response response_;
};

template <typename Request, typename Response>
class GrpcReplyStream final
    : public GrpcOneRequest<GrpcWritingCall<ReplyStream<Response>, Response>, Request> {
 public:
  using GrpcReplyStream::GrpcOneRequest::GrpcOneRequest;
};

// Receives requests as bytes. gRPC itself reports an undecodable message as the end of the
// messages; the client would then get OK and fewer replies than it sent requests.
template <typename Request, typename Response>
class GrpcMessageStream final : public GrpcWritingCall<MessageStream<Request, Response>, Response> {
 public:
  GrpcMessageStream(grpc::CallbackServerContext* context, const CallGuard& guard,
                    const DecodeLimits& limits)
      : GrpcMessageStream::GrpcWritingCall(context, guard), limits_(limits) {}

  void Read() override { this->StartRead(&this->incoming_); }
  void OnReadDone(bool ok) noexcept override { this->Bound()->OnReadDone(ok); }
  Incoming<Request> Take() override {
    auto bytes = std::make_shared<grpc::ByteBuffer>();
    bytes->Swap(&this->incoming_);
    return [bytes = std::move(bytes), limits = limits_, guard = this->guard_,
            key = this->facts_.key, caller = CallerOf(this->facts_)] {
      GrpcBytes encoded(bytes.get());
      auto request = DecodeHeld<Request>(&encoded, limits, caller);
      encoded.Clear();
      if (!request.ok()) return request;
      const absl::Status allowed = CheckRequest(guard, key, **request);
      if (!allowed.ok()) request = allowed;
      return request;
    };
  }

 private:
  const DecodeLimits limits_;
};

}  // namespace nearfield::server
