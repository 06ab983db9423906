// The gRPC side of a call: reactors that are the CallContext of the service's ActiveCall.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "server/calls/call_context.h"
#include "server/calls/caller_name.h"
#include "server/convert/decode.h"
#include "server/service/grpc_bytes.h"

namespace nearfield::server {

// Maximum bytes of a call's metadata, counted as in HTTP/2.
inline constexpr size_t kMetadataBytesMax = 16 * 1024;

// Returns the facts in the metadata of a call. Its status is ResourceExhausted if the client sent
// more than kMetadataBytesMax.
CallFacts FactsOf(const grpc::CallbackServerContext& context);

// Sets the trailing metadata, and returns the status for the client.
grpc::Status StatusOf(const CallEnd& end, grpc::CallbackServerContext* context);

// `Reactor`: gRPC's side. `Context`: CallContext or a stream derived from it. Deletes itself.
template <typename Reactor, typename Context>
class GrpcCall : public Reactor, public Context {
 public:
  explicit GrpcCall(grpc::CallbackServerContext* context)
      : context_(context), facts_(FactsOf(*context)) {}

  // Sets the call of the service, whose events follow once the reactor is returned to gRPC.
  void Bind(ActiveCallPtr call) { call_ = std::move(call); }

  const CallFacts& facts() const override { return facts_; }
  void Finish(const CallEnd& end) override { Reactor::Finish(StatusOf(end, context_)); }
  void Abort() override { context_->TryCancel(); }

  void OnCancel() override { call_->OnCancel(); }
  void OnDone() override {
    call_->OnDone();
    call_ = nullptr;  // before the members that it uses
    delete this;
  }

 protected:
  grpc::CallbackServerContext* const context_;
  const CallFacts facts_;
  ActiveCallPtr call_;
};

using GrpcUnaryCall = GrpcCall<grpc::ServerUnaryReactor, CallContext>;

// Sends `Response`s.
template <typename Reactor, typename Context, typename Response>
class GrpcWritingCall : public GrpcCall<Reactor, Context> {
 public:
  using GrpcCall<Reactor, Context>::GrpcCall;

  void Write(const Response& response) override { this->StartWrite(&response); }
  void WriteAndFinish(const Response& response, const CallEnd& end) override {
    this->StartWriteAndFinish(&response, grpc::WriteOptions(), StatusOf(end, this->context_));
  }
  void OnWriteDone(bool ok) override { this->call_->OnWriteDone(ok); }
};

template <typename Response>
using GrpcReplyStream =
    GrpcWritingCall<grpc::ServerWriteReactor<Response>, ReplyStream<Response>, Response>;

// Receives requests as bytes. gRPC itself reports an undecodable message as the end of the
// messages; the client would then get OK and fewer replies than it sent requests.
template <typename Request, typename Response>
class GrpcMessageStream final
    : public GrpcWritingCall<grpc::ServerBidiReactor<grpc::ByteBuffer, Response>,
                             MessageStream<Request, Response>, Response> {
 public:
  GrpcMessageStream(grpc::CallbackServerContext* context, const DecodeLimits& limits)
      : GrpcMessageStream::GrpcWritingCall(context), limits_(limits) {}

  void Read() override { this->StartRead(&incoming_); }
  void OnReadDone(bool ok) override { this->call_->OnReadDone(ok); }
  Incoming<Request> Take() override {
    auto bytes = std::make_shared<grpc::ByteBuffer>();
    bytes->Swap(&incoming_);
    return [bytes = std::move(bytes), limits = limits_, caller = CallerOf(this->facts_)] {
      GrpcBytes encoded(bytes.get());
      auto request = DecodeHeld<Request>(&encoded, limits, caller);
      encoded.Clear();
      return request;
    };
  }

 private:
  const DecodeLimits limits_;
  grpc::ByteBuffer incoming_;
};

}  // namespace nearfield::server
