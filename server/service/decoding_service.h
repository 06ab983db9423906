// DecodingService: a gRPC service whose methods receive requests as bytes, and decode them after
// their memory is reserved. gRPC itself decodes before it calls the service: 64 MiB of empty texts
// would take 1 GiB before they could be refused.
#ifndef NEARFIELD_SERVER_SERVICE_DECODING_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_DECODING_SERVICE_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "server/service/call.h"
#include "server/service/decode.h"
#include "server/service/server_state.h"

namespace nearfield::server {

// A call that ends with an error before any work.
template <typename Reactor>
class RefusedCall final : public Reactor {
 public:
  RefusedCall(ServerState* state, grpc::CallbackServerContext* context, const char* method,
              const absl::Status& status)
      : call_(state, context, method) {
    const absl::StatusOr<Core*> core = call_.Enter();  // not serving takes precedence over `status`
    this->Finish(call_.Close(core.ok() ? status : core.status()));
  }
  void OnDone() override { delete this; }

 private:
  Call call_;
};

// `Base` is a generated service. The derived service's constructor calls Answer for each method.
template <typename Base>
class DecodingService : public Base {
 protected:
  // `state` outlives the service.
  explicit DecodingService(ServerState* state) : state_(state) {}

  // Registers `call` for the unary method with the full name `name`.
  template <typename Service, typename Request, typename Response>
  void Answer(const char* name,
              grpc::ServerUnaryReactor* (Service::*call)(grpc::CallbackServerContext*,
                                                         std::shared_ptr<const Request>,
                                                         Response*)) {
    const google::protobuf::MethodDescriptor& method = Find(name);
    const auto start = [this, call, &method](grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* bytes, Response* response) {
      return Decoded<Request, grpc::ServerUnaryReactor>(
          method, context, bytes, [&](std::shared_ptr<const Request> request) {
            return (static_cast<Service*>(this)->*call)(context, std::move(request), response);
          });
    };
    this->MarkMethodRawCallback(
        method.index(),
        new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, Response>(start));
  }

  // As above, for a method with a stream of replies.
  template <typename Service, typename Request, typename Response>
  void Answer(const char* name, grpc::ServerWriteReactor<Response>* (Service::*call)(
                                    grpc::CallbackServerContext*, std::shared_ptr<const Request>)) {
    const google::protobuf::MethodDescriptor& method = Find(name);
    const auto start = [this, call, &method](grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* bytes) {
      return Decoded<Request, grpc::ServerWriteReactor<Response>>(
          method, context, bytes, [&](std::shared_ptr<const Request> request) {
            return (static_cast<Service*>(this)->*call)(context, std::move(request));
          });
    };
    this->MarkMethodRawCallback(
        method.index(),
        new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, Response>(start));
  }

  // As above, for a method with streams in both directions, which decodes its messages itself.
  template <typename Service, typename Response>
  void Answer(const char* name, grpc::ServerBidiReactor<grpc::ByteBuffer, Response>* (
                                    Service::*call)(grpc::CallbackServerContext*)) {
    this->MarkMethodRawCallback(Find(name).index(),
                                new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Response>(
                                    [this, call](grpc::CallbackServerContext* context) {
                                      return (static_cast<Service*>(this)->*call)(context);
                                    }));
  }

  ServerState* const state_;

 private:
  static const google::protobuf::MethodDescriptor& Find(const char* name) {
    return *google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  }

  template <typename Request, typename Reactor, typename Start>
  Reactor* Decoded(const google::protobuf::MethodDescriptor& method,
                   grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
                   const Start& start) {
    // gRPC keeps the bytes until the end of the call, but never reads them again.
    auto* const taken = const_cast<grpc::ByteBuffer*>(bytes);
    auto request = DecodeHeld<Request>(taken, &state_->ledger().requests, CallerOf(*context));
    taken->Clear();
    if (request.ok()) return start(*std::move(request));
    return new RefusedCall<Reactor>(state_, context, method.name().c_str(), request.status());
  }
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_DECODING_SERVICE_H_
