// DecodingService: a gRPC service whose methods receive requests as bytes, and decode them after
// their memory is reserved. gRPC itself decodes before it calls the service: 64 MiB of empty texts
// would take 1 GiB before they could be refused.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/check.h"
#include "server/convert/decode.h"
#include "server/grpc/grpc_call.h"
#include "server/rpc/nearfield_service.h"
#include "server/security/access_table.h"

namespace nearfield::server {

// The objects that a gRPC service of the server needs. They outlive it.
struct ServiceBase {
  NearfieldService* service = nullptr;     // answers the calls
  ByteAccount* requests = nullptr;         // reserves the memory of requests
  const AccessControl* control = nullptr;  // the keys that calls are checked with
  bool has_keys = false;                   // `control` may require a key for a call
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
    if (!base_.has_keys) {
      RegisterUnary(name, call);
      return;
    }
    RegisterOneRequest<GrpcUnaryCall<Request, Response>, Request, Response>(
        name, [service = base_.service, call](auto* reactor, auto request) {
          return (service->*call)({reactor, std::move(request), reactor->response()});
        });
  }

  // As above, for a method with a stream of replies.
  template <typename Request, typename Response>
  void Register(const char* name,
                ActiveCallPtr (NearfieldService::*call)(ReplyStream<Response>*,
                                                        std::shared_ptr<const Request>)) {
    RegisterOneRequest<GrpcReplyStream<Request, Response>, Request, Response>(
        name, [service = base_.service, call](auto* reactor, auto request) {
          return (service->*call)(reactor, std::move(request));
        });
  }

  // As above, for a method with streams in both directions.
  template <typename Request, typename Response>
  void Register(const char* name,
                ActiveCallPtr (NearfieldService::*call)(MessageStream<Request, Response>*)) {
    const DecodeLimits limits = {.account = base_.requests,
                                 .unreserved_bytes_max = base_.unreserved_bytes_max};
    RegisterReactor<Response>(
        name, [this, call, limits](grpc::CallbackServerContext* context, const CallGuard& guard,
                                   const char* method) {
          auto* const reactor = new GrpcMessageStream<Request, Response>(context, guard, limits);
          if (!RefuseEarly(reactor, method)) {
            reactor->Bind([&] { return (base_.service->*call)(reactor); });
          }
          return reactor;
        });
  }

 private:
  static const google::protobuf::MethodDescriptor& Find(const char* name) {
    return *google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  }
  CallGuard GuardOf(const char* name) const {
    const CallGuard guard = {.control = base_.control, .method = FindAccess(name)};
    CHECK(guard.method != nullptr);  // every method has an entry in the access table
    return guard;
  }

  // Registers a unary method whose requests gRPC reads.
  template <typename Request, typename Response>
  void RegisterUnary(const char* name,
                     ActiveCallPtr (NearfieldService::*call)(Rpc<Request, Response>)) {
    const auto start = [this, call, guard = GuardOf(name), method = Find(name).name().c_str()](
                           grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
                           Response* response) noexcept {
      // Without memory for it the process ends.
      auto* const reactor =
          std::make_unique<GrpcReadUnaryCall>(context, guard, kGrpcPassUsMax).release();
      if (RefuseEarly(reactor, method)) return reactor;
      // gRPC keeps the bytes until the end of the call, but never reads them again.
      auto request = DecodeRequest<Request>(const_cast<grpc::ByteBuffer*>(bytes), base_.requests,
                                            guard, reactor->facts());
      reactor->Bind([&] {
        return request.ok() ? (base_.service->*call)({reactor, *std::move(request), response})
                            : base_.service->Refuse(reactor, method, request.status());
      });
      return reactor;
    };
    this->MarkMethodRawCallback(
        Find(name).index(),
        new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, Response>(start));
  }

  // Registers the method. `make` returns the reactor of a call.
  template <typename Response, typename Make>
  void RegisterReactor(const char* name, const Make& make) {
    const google::protobuf::MethodDescriptor& method = Find(name);
    const CallGuard guard = GuardOf(name);
    // gRPC then hands over a call before its message.
    this->MarkMethodStreamed(method.index(), nullptr);
    this->MarkMethodRawCallback(
        method.index(), new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Response>(
                            [make, guard, &method](grpc::CallbackServerContext* context) noexcept {
                              return make(context, guard, method.name().c_str());
                            }));
  }

  // Registers a method with one request. `start` starts the call in the service.
  template <typename Reactor, typename Request, typename Response, typename Start>
  void RegisterOneRequest(const char* name, const Start& start) {
    RegisterReactor<Response>(name, [this, start](grpc::CallbackServerContext* context,
                                                  const CallGuard& guard, const char* method) {
      auto* const reactor = new Reactor(context, guard);
      if (RefuseEarly(reactor, method)) return reactor;
      reactor->ReadRequest(
          base_.requests,
          [this, start, reactor, method](absl::StatusOr<std::shared_ptr<const Request>> read) {
            return read.ok() ? start(reactor, *std::move(read))
                             : base_.service->Refuse(reactor, method, read.status());
          });
      return reactor;
    });
  }

  // Ends a call that its metadata rule out, before its body is read. Returns false if there is none
  // such reason.
  template <typename Reactor>
  bool RefuseEarly(Reactor* reactor, const char* method) {
    const absl::Status& status = reactor->facts().status;
    if (status.ok()) return false;
    reactor->Bind([&] { return base_.service->Refuse(reactor, method, status); });
    return true;
  }

  const ServiceBase base_;
};

}  // namespace nearfield::server
