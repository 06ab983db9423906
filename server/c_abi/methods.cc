#include "server/c_abi/methods.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <climits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/decode.h"
#include "server/rpc/caller_name.h"
#include "server/rpc/methods.h"
#include "server/rpc/waiting_call.h"

namespace nearfield::server {
namespace {

// Maximum memory of a decoded health check, which holds the name of a service.
constexpr int64_t kHealthBytesMax = 64 * 1024;

class BorrowedBytes final : public EncodedMessage {
 public:
  explicit BorrowedBytes(Borrowed bytes) : bytes_(bytes) {}

  size_t size() const override { return bytes_.size; }
  std::unique_ptr<google::protobuf::io::ZeroCopyInputStream> NewReader() override {
    if (bytes_.size > static_cast<size_t>(INT_MAX)) return nullptr;
    return std::make_unique<google::protobuf::io::ArrayInputStream>(bytes_.data,
                                                                    static_cast<int>(bytes_.size));
  }
  void Clear() override { bytes_ = {}; }

 private:
  Borrowed bytes_;
};

// Decodes a request. Errors: those of DecodeHeld; ResourceExhausted (above request_bytes_max).
template <typename Request>
absl::StatusOr<std::shared_ptr<const Request>> RequestOf(Folder* folder, Borrowed bytes,
                                                         const std::string& caller,
                                                         int64_t unreserved_bytes_max) {
  const int64_t bytes_max = folder->settings().request_bytes_max.value();
  if (bytes.size > static_cast<size_t>(bytes_max)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "message: ", bytes.size, " bytes, the limit request_bytes_max is ", bytes_max));
  }
  BorrowedBytes encoded(bytes);
  return DecodeHeld<Request>(
      &encoded,
      {.account = &folder->state().ledger().requests, .unreserved_bytes_max = unreserved_bytes_max},
      caller);
}

// A stream of replies; `Call` is a WaitingReplies or a class derived from it.
template <typename Call, typename Response>
class RepliesStream : public Stream {
 public:
  explicit RepliesStream(CallFacts facts) : call(std::move(facts)) {}

  bool Send(const void* /*request*/, size_t /*size*/) override { return false; }
  bool Receive(std::string* message) override {
    return call.NextAs([message](const Response& reply) { reply.SerializeToString(message); });
  }
  CallEnd AwaitEnd() override { return call.AwaitEnd(); }
  void Cancel() override { call.Cancel(); }
  void Release() override { call.Release(); }

  Call call;
};

template <typename Response>
using ScanLikeStream = RepliesStream<WaitingReplies<ReplyStream<Response>, Response>, Response>;

template <typename Request, typename Response>
class MessagesStream final : public RepliesStream<WaitingMessages<Request, Response>, Response> {
 public:
  MessagesStream(Folder* folder, CallFacts facts)
      : MessagesStream::RepliesStream(std::move(facts)),
        folder_(folder),
        caller_(CallerOf(this->call.facts())) {}

  // Decodes on the thread of the caller, whose bytes are borrowed, once the service reads.
  bool Send(const void* request, size_t size) override {
    return this->call.SendAs([&]() -> Incoming<Request> {
      if (request == nullptr) return nullptr;
      return [decoded = RequestOf<Request>(folder_, {request, size}, caller_, UnreservedBytes())] {
        return decoded;
      };
    });
  }

 private:
  int64_t UnreservedBytes() const {
    if (!std::is_same_v<Request, pb::UploadRequest>) return 0;
    return kUploadDecodedPart * folder_->settings().request_bytes_max.value();
  }

  Folder* const folder_;
  const std::string caller_;
};

using Methods = std::map<std::string, Method, std::less<>>;

// Adds methods of the three kinds to a table.
class Adder {
 public:
  explicit Adder(Methods* methods) : methods_(methods) {}

  template <typename Request, typename Response>
  void operator()(const std::string& name,
                  ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>)) const {
    Add(name).call = [method, own = OwnName(name)](Folder* folder, Borrowed bytes, CallFacts facts,
                                                   std::string* serialized) {
      Response response;  // outlives the call
      WaitingUnary call(std::move(facts));
      auto request = RequestOf<Request>(folder, bytes, CallerOf(call.facts()), 0);
      NearfieldService& service = folder->service();
      call.Bind(request.ok() ? (service.*method)({&call, *std::move(request), &response})
                             : service.Refuse(&call, own.c_str(), request.status()));
      CallEnd end = call.AwaitEnd();
      if (end.status.ok()) response.SerializeToString(serialized);
      return end;
    };
  }

  template <typename Request, typename Response>
  void operator()(const std::string& name,
                  ActiveCallPtr (NearfieldService::*method)(ReplyStream<Response>*,
                                                            std::shared_ptr<const Request>)) const {
    Method& added = Add(name);
    added.takes_request = true;
    added.make_stream = [](Folder* /*folder*/, CallFacts facts) -> std::shared_ptr<Stream> {
      return std::make_shared<ScanLikeStream<Response>>(std::move(facts));
    };
    added.start = [method, own = OwnName(name)](Folder* folder, Borrowed bytes, Stream* stream) {
      auto& call = static_cast<ScanLikeStream<Response>*>(stream)->call;
      auto request = RequestOf<Request>(folder, bytes, CallerOf(call.facts()), 0);
      NearfieldService& service = folder->service();
      call.Bind(request.ok() ? (service.*method)(&call, *std::move(request))
                             : service.Refuse(&call, own.c_str(), request.status()));
    };
  }

  template <typename Request, typename Response>
  void operator()(const std::string& name, ActiveCallPtr (NearfieldService::*method)(
                                               MessageStream<Request, Response>*)) const {
    Method& added = Add(name);
    added.make_stream = [](Folder* folder, CallFacts facts) -> std::shared_ptr<Stream> {
      return std::make_shared<MessagesStream<Request, Response>>(folder, std::move(facts));
    };
    added.start = [method](Folder* folder, Borrowed /*bytes*/, Stream* stream) {
      auto& call = static_cast<MessagesStream<Request, Response>*>(stream)->call;
      call.Bind((folder->service().*method)(&call));
    };
  }

 private:
  // Returns "Search" of "nearfield.v1.Retrieval.Search".
  static std::string OwnName(const std::string& name) { return name.substr(name.rfind('.') + 1); }

  Method& Add(const std::string& name) const {
    std::string path = "/" + name;
    path[path.rfind('.')] = '/';
    return (*methods_)[path];
  }

  Methods* const methods_;
};

CallEnd CheckHealth(Folder* folder, Borrowed bytes, const CallFacts& /*facts*/,
                    std::string* response) {
  BorrowedBytes encoded(bytes);
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse answer;
  CallEnd end;
  end.status = DecodeWithin(kHealthBytesMax, &encoded, &request);
  if (end.status.ok()) end.status = folder->health().Answer(request, nullptr, &answer);
  if (end.status.ok()) answer.SerializeToString(response);
  return end;
}

Methods AllMethods() {
  Methods methods;
  const Adder add(&methods);
  VisitRetrieval(add);
  VisitIngest(add);
  VisitAdmin(add);
  methods["/grpc.health.v1.Health/Check"].call = CheckHealth;
  return methods;
}

}  // namespace

const Method* FindMethod(std::string_view path) {
  static const auto* const methods = new Methods(AllMethods());  // lives as long as the process
  const auto it = methods->find(path);
  return it == methods->end() ? nullptr : &it->second;
}

}  // namespace nearfield::server
