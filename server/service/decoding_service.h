// DecodingService: a gRPC service whose methods receive requests as bytes, and decode them after
// their memory is reserved. gRPC itself decodes before it calls the service: 64 MiB of empty texts
// would take 1 GiB before they could be refused.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "server/calls/nearfield_service.h"
#include "server/convert/decode.h"
#include "server/service/grpc_bytes.h"
#include "server/service/grpc_call.h"

namespace nearfield::server {

// The objects that a gRPC service of the server needs. They outlive it.
struct ServiceBase {
  NearfieldService* service = nullptr;  // answers the calls
  ByteAccount* requests = nullptr;      // reserves the memory of requests
  // A message of a stream of requests that takes at most this is not reserved.
  int64_t unreserved_bytes_max = 0;
};

// `Base` is a generated service. The derived service's constructor calls Register for each method.
template <typename Base>
class DecodingService : public Base {
 protected:
  explicit DecodingService(const ServiceBase& base) : base_(base) {}

  // Registers `call` as the handler of the unary method with the full name `name`.
  template <typename Request, typename Response>
  void Register(const char* name, ActiveCallPtr (NearfieldService::*call)(Rpc<Request, Response>)) {
    const google::protobuf::MethodDescriptor& method = Find(name);
    const auto start = [this, call, &method](grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* bytes, Response* response) {
      return Decoded<Request, GrpcUnaryCall>(
          method, context, bytes,
          [&](GrpcUnaryCall* reactor, std::shared_ptr<const Request> request) {
            return (base_.service->*call)({reactor, std::move(request), response});
          });
    };
    this->MarkMethodRawCallback(
        method.index(),
        new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, Response>(start));
  }

  // As above, for a method with a stream of replies.
  template <typename Request, typename Response>
  void Register(const char* name,
                ActiveCallPtr (NearfieldService::*call)(ReplyStream<Response>*,
                                                        std::shared_ptr<const Request>)) {
    const google::protobuf::MethodDescriptor& method = Find(name);
    const auto start = [this, call, &method](grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* bytes) {
      return Decoded<Request, GrpcReplyStream<Response>>(
          method, context, bytes,
          [&](GrpcReplyStream<Response>* reactor, std::shared_ptr<const Request> request) {
            return (base_.service->*call)(reactor, std::move(request));
          });
    };
    this->MarkMethodRawCallback(
        method.index(),
        new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, Response>(start));
  }

  // As above, for a method with streams in both directions.
  template <typename Request, typename Response>
  void Register(const char* name,
                ActiveCallPtr (NearfieldService::*call)(MessageStream<Request, Response>*)) {
    const DecodeLimits limits = {.account = base_.requests,
                                 .unreserved_bytes_max = base_.unreserved_bytes_max};
    this->MarkMethodRawCallback(Find(name).index(),
                                new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Response>(
                                    [this, call, limits](grpc::CallbackServerContext* context) {
                                      auto* const reactor =
                                          new GrpcMessageStream<Request, Response>(context, limits);
                                      reactor->Bind((base_.service->*call)(reactor));
                                      return reactor;
                                    }));
  }

 private:
  static const google::protobuf::MethodDescriptor& Find(const char* name) {
    return *google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  }

  template <typename Request, typename Reactor, typename Start>
  Reactor* Decoded(const google::protobuf::MethodDescriptor& method,
                   grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
                   const Start& start) {
    auto* const reactor = new Reactor(context);
    // gRPC keeps the bytes until the end of the call, but never reads them again.
    GrpcBytes taken(const_cast<grpc::ByteBuffer*>(bytes));
    auto request =
        DecodeHeld<Request>(&taken, {.account = base_.requests}, CallerOf(reactor->facts()));
    taken.Clear();
    reactor->Bind(request.ok()
                      ? start(reactor, *std::move(request))
                      : base_.service->Refuse(reactor, method.name().c_str(), request.status()));
    return reactor;
  }

  const ServiceBase base_;
};

}  // namespace nearfield::server
