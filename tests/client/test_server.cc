#include "tests/client/test_server.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <mutex>

#include "absl/synchronization/notification.h"
#include "grpc/health/v1/health.pb.h"
#include "nearfield/engine/engine.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/test_files.h"
#include "tests/server/server_fixture.h"

namespace nearfield::client {
namespace {

using grpc::ByteBuffer;
using grpc::internal::RpcMethod;
using ToClient = grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>;
using ToServer = grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>;
using MethodDescriptor = google::protobuf::MethodDescriptor;
using ServiceDescriptor = google::protobuf::ServiceDescriptor;

constexpr char kCallerKey[] = "nearfield-caller";
constexpr char kRequestIdKey[] = "nearfield-request-id";

std::string BytesOf(const ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

// A service whose methods all are streams of bytes in both directions: on the wire, each call is
// one.
class ByteService final : public grpc::Service {
 public:
  using Handler = std::function<grpc::Status(const MethodDescriptor& method, const char* path,
                                             grpc::ServerContext* context, ToClient* client)>;

  ByteService(const ServiceDescriptor& service, const Handler& handler) {
    for (int i = 0; i < service.method_count(); ++i) {
      const MethodDescriptor& method = *service.method(i);
      const char* path =
          paths_.emplace_back("/" + service.full_name() + "/" + method.name()).c_str();
      AddMethod(new grpc::internal::RpcServiceMethod(
          path, RpcMethod::BIDI_STREAMING,
          new grpc::internal::BidiStreamingHandler<ByteService, ByteBuffer, ByteBuffer>(
              [handler, &method, path](ByteService*, grpc::ServerContext* context,
                                       ToClient* client) {
                return handler(method, path, context, client);
              },
              this)));
    }
  }

 private:
  std::deque<std::string> paths_;
};

// The server over the CPU backend, with little memory and a data directory.
class RealServer final : public server::InProcessServer {
 public:
  RealServer() {
    make_engine_ = Engine::Create;
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"data_dir", folder_.path() + "/data"},
             {"snapshot_dir", folder_.path() + "/snapshots"},
             {"backend", "cpu"},
             {"threads", "1"},
             {"memory_bytes", "64MiB"},
             {"host_memory_bytes", "64MiB"}}) {
      SetByName(name, value);
    }
  }

  void SetByName(const std::string& name, const std::string& value) {
    const auto found = std::find_if(settings_.all().begin(), settings_.all().end(),
                                    [&](const auto* setting) { return setting->name() == name; });
    ASSERT_NE(found, settings_.all().end()) << name;
    Set(**found, value);
  }
  void StartDrain() {
    drained_ = std::async(std::launch::async, [this] { Drain(); });
  }
  void End() {
    if (drained_.valid()) drained_.get();
    Drain();
  }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  TempFolder folder_;
  std::future<void> drained_;
};

}  // namespace

// What the proxy knows of a method: its script, and the record of its calls.
struct MethodState {
  std::deque<Refusal> refusals;
  std::shared_ptr<std::function<std::optional<Refusal>(std::string*)>> hook;
  int calls = 0;
  std::vector<int64_t> deadlines_ms;
  std::vector<std::string> requests;
  std::string caller;
  std::string request_id;
};

class TestServer::Impl {
 public:
  // The end of the server ends all calls through the proxy.
  ~Impl() {
    ended_.Notify();
    server_.End();
    if (proxy_ != nullptr) proxy_->Shutdown();
  }

  RealServer& server() { return server_; }
  const absl::Notification& ended() const { return ended_; }

  std::string Address() {
    if (server_.channel() == nullptr) server_.Serve();
    if (proxy_ != nullptr) return address_;
    for (const ServiceDescriptor* service :
         {v1::SearchRequest::descriptor()->file()->service(0),
          v1::UploadRequest::descriptor()->file()->service(0),
          v1::CreateCollectionRequest::descriptor()->file()->service(0),
          grpc::health::v1::HealthCheckRequest::descriptor()->file()->service(0)}) {
      services_.emplace_back(
          *service, [this](const auto& method, const char* path, auto* context, auto* client) {
            return Call(method, path, context, client);
          });
    }
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    for (ByteService& service : services_) builder.RegisterService(&service);
    proxy_ = builder.BuildAndStart();
    return address_ = "127.0.0.1:" + std::to_string(port);
  }

  // Calls `use` with the state of a method, under the lock.
  template <typename Use>
  auto With(const std::string& method, const Use& use) {
    const std::lock_guard lock(mutex_);
    return use(methods_[method]);
  }

 private:
  // One call through the proxy, on its own thread. Requests of a stream in both directions pass one
  // by one, each with its reply, so that a test knows what the server has when the call ends.
  grpc::Status Call(const MethodDescriptor& method, const char* path, grpc::ServerContext* context,
                    ToClient* client) {
    const std::string& name = method.name();
    if (const std::optional<Refusal> refused = Enter(name, context))
      return EndWith(*refused, name, context);
    // The deadline and a cancellation reach the server.
    const auto to_server = grpc::ClientContext::FromServerContext(*context);
    if (const std::string caller = With(name, [](auto& state) { return state.caller; });
        !caller.empty()) {
      to_server->AddMetadata(kCallerKey, caller);
    }
    const std::unique_ptr<ToServer> server(
        grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
            server_.channel().get(), RpcMethod(path, RpcMethod::BIDI_STREAMING), to_server.get()));
    const bool pairs = method.client_streaming() && method.server_streaming();
    std::optional<Refusal> end;
    bool open = true;
    ByteBuffer request;
    while (open && client->Read(&request)) {
      With(name, [&](auto& state) { state.requests.push_back(BytesOf(request)); });
      open = server->Write(request) && (!pairs || PassReply(name, server.get(), client, &end));
    }
    if (context->IsCancelled()) to_server->TryCancel();
    // A call that a test ends also ends at the server, and with all that the server has to do.
    server->WritesDone();
    while (!end && PassReply(name, server.get(), client, &end)) {
    }
    for (ByteBuffer unwanted; server->Read(&unwanted);) {
    }
    const grpc::Status status = server->Finish();
    if (end) return EndWith(*end, name, context);
    for (const auto& [key, value] : to_server->GetServerTrailingMetadata()) {
      const std::string text(value.data(), value.size());
      if (key.starts_with("grpc-")) continue;  // part of the status
      context->AddTrailingMetadata(std::string(key.data(), key.size()), text);
      if (key == kRequestIdKey) With(name, [&](auto& state) { state.request_id = text; });
    }
    return status;
  }

  // Records a call. Returns its scripted end, if it has one.
  std::optional<Refusal> Enter(const std::string& name, grpc::ServerContext* context) {
    return With(name, [&](MethodState& state) -> std::optional<Refusal> {
      ++state.calls;
      const auto left = context->deadline() - std::chrono::system_clock::now();
      state.deadlines_ms.push_back(
          std::chrono::duration_cast<std::chrono::milliseconds>(left).count());
      const auto caller = context->client_metadata().find(kCallerKey);
      state.caller = caller == context->client_metadata().end()
                         ? ""
                         : std::string(caller->second.data(), caller->second.size());
      if (state.refusals.empty()) return std::nullopt;
      const Refusal refusal = state.refusals.front();
      state.refusals.pop_front();
      return refusal;
    });
  }

  grpc::Status EndWith(const Refusal& refusal, const std::string& name,
                       grpc::ServerContext* context) {
    const std::string id =
        With(name, [&](auto& state) { return state.request_id = "scripted-" + name; });
    context->AddTrailingMetadata(kRequestIdKey, id);
    if (refusal.retry_after_ms)
      context->AddTrailingMetadata("retry-after-ms", *refusal.retry_after_ms);
    return {static_cast<grpc::StatusCode>(refusal.status.code()),
            std::string(refusal.status.message())};
  }

  // Passes one reply to the client. Returns false after the last one, and if the test ends the
  // call.
  bool PassReply(const std::string& name, ToServer* server, ToClient* client,
                 std::optional<Refusal>* end) {
    ByteBuffer reply;
    if (!server->Read(&reply)) return false;
    if (const auto hook = With(name, [](auto& state) { return state.hook; })) {
      std::string bytes = BytesOf(reply);
      *end = (*hook)(&bytes);
      reply = BufferOf(bytes);
    }
    if (*end && !(*end)->after_reply) return false;
    return client->Write(reply) && !*end;
  }

  absl::Notification ended_;
  RealServer server_;
  std::mutex mutex_;
  std::map<std::string, MethodState> methods_;  // by name, under the lock
  std::deque<ByteService> services_;
  std::unique_ptr<grpc::Server> proxy_;
  std::string address_;
};

TestServer::TestServer() : impl_(std::make_unique<Impl>()) {}
TestServer::~TestServer() = default;

void TestServer::Set(const std::string& setting, const std::string& value) {
  impl_->server().SetByName(setting, value);
}
void TestServer::Listen() { impl_->server().Listen(); }
std::string TestServer::address() const { return impl_->Address(); }
void TestServer::StartDrain() { impl_->server().StartDrain(); }

void TestServer::Refuse(const std::string& method, std::vector<Refusal> refusals) {
  impl_->With(method,
              [&](auto& state) { state.refusals.assign(refusals.begin(), refusals.end()); });
}
void TestServer::AwaitEnd(std::chrono::milliseconds wait_max) {
  impl_->ended().WaitForNotificationWithTimeout(absl::FromChrono(wait_max));
}
void TestServer::SetHook(const std::string& method, Hook hook) {
  impl_->With(method, [&](auto& state) { state.hook = std::make_shared<Hook>(std::move(hook)); });
}

int TestServer::calls(const std::string& method) const {
  return impl_->With(method, [](auto& state) { return state.calls; });
}
std::vector<int64_t> TestServer::deadlines_ms(const std::string& method) const {
  return impl_->With(method, [](auto& state) { return state.deadlines_ms; });
}
std::string TestServer::caller(const std::string& method) const {
  return impl_->With(method, [](auto& state) { return state.caller; });
}
std::string TestServer::request_id(const std::string& method) const {
  return impl_->With(method, [](auto& state) { return state.request_id; });
}
std::vector<std::string> TestServer::request_bytes(const std::string& method) const {
  return impl_->With(method, [](auto& state) { return state.requests; });
}

}  // namespace nearfield::client
