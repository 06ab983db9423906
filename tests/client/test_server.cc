#include "tests/client/test_server.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>

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

constexpr char kCallerKey[] = "nearfield-caller";
constexpr char kRequestIdKey[] = "nearfield-request-id";

std::string BytesOf(const ByteBuffer& buffer) {
  grpc::Slice slice;
  EXPECT_TRUE(buffer.DumpToSingleSlice(&slice).ok());
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

std::string CallerOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(kCallerKey);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

// The server over the CPU backend, with little memory.
class RealServer final : public server::InProcessServer {
 public:
  RealServer() {
    make_engine_ = Engine::Create;
    Set(settings_.backend, "cpu");
    Set(settings_.threads, "1");
    Set(settings_.memory_bytes, "64MiB");
    Set(settings_.host_memory_bytes, "64MiB");
  }

  void KeepData() {
    Set(settings_.data_dir, folder_.path() + "/data");
    Set(settings_.snapshot_dir, folder_.path() + "/snapshots");
  }

  void SetByName(const std::string& name, const std::string& value) {
    for (auto* setting : settings_.all()) {
      if (setting->name() == name) return Set(*setting, value);
    }
    FAIL() << name;
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

// The record of a method's calls, and its script.
struct MethodState : CallRecord {
  std::vector<Refusal> refusals;
  std::shared_ptr<TestServer::Hook> hook;
};

// A service with the methods of the server's services. Each method is a stream of bytes in both
// directions, as every call is on the wire.
class Proxy : public grpc::Service {
 public:
  Proxy() {
    for (const google::protobuf::FileDescriptor* file :
         {v1::SearchRequest::descriptor()->file(), v1::UploadRequest::descriptor()->file(),
          v1::CreateCollectionRequest::descriptor()->file(),
          grpc::health::v1::HealthCheckRequest::descriptor()->file()}) {
      for (int i = 0; i < file->service(0)->method_count(); ++i) Add(*file->service(0)->method(i));
    }
  }

  // Begins to pass calls to `channel`. Returns the address of the proxy.
  std::string Start(std::shared_ptr<grpc::Channel> channel) {
    channel_ = std::move(channel);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    return "127.0.0.1:" + std::to_string(port);
  }
  // Blocks until all calls have ended. Requires: they end without help.
  void Stop() {
    if (server_ != nullptr) server_->Shutdown();
  }

  // Calls `use` with the state of a method, under the lock.
  template <typename Use>
  auto With(const std::string& method, const Use& use) {
    const std::lock_guard lock(mutex_);
    return use(methods_[method]);
  }

 private:
  void Add(const MethodDescriptor& method) {
    const char* path =
        paths_.emplace_back("/" + method.service()->full_name() + "/" + method.name()).c_str();
    AddMethod(new grpc::internal::RpcServiceMethod(
        path, RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<Proxy, ByteBuffer, ByteBuffer>(
            [&method, path](Proxy* proxy, grpc::ServerContext* context, ToClient* client) {
              return proxy->Call(method, path, context, client);
            },
            this)));
  }

  // One call through the proxy, on its own thread. Requests of a stream in both directions pass one
  // by one, each with its reply, so that a test knows what the server has when the call ends.
  grpc::Status Call(const MethodDescriptor& method, const char* path, grpc::ServerContext* context,
                    ToClient* client) {
    const std::string& name = method.name();
    if (const std::optional<Refusal> refused = Enter(name, context))
      return EndWith(*refused, name, context);
    // The deadline and a cancellation reach the server.
    const auto to_server = grpc::ClientContext::FromServerContext(*context);
    if (const std::string caller = CallerOf(*context); !caller.empty())
      to_server->AddMetadata(kCallerKey, caller);
    const std::unique_ptr<ToServer> server(
        grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
            channel_.get(), RpcMethod(path, RpcMethod::BIDI_STREAMING), to_server.get()));
    const bool pairs = method.client_streaming() && method.server_streaming();
    std::optional<Refusal> end;
    ByteBuffer request;
    for (bool open = true; open && client->Read(&request);) {
      With(name, [&](auto& state) { state.requests.push_back(BytesOf(request)); });
      open = server->Write(request) && (!pairs || PassReply(name, server.get(), client, &end));
    }
    if (context->IsCancelled()) to_server->TryCancel();
    // If the test ends the call, the server still completes it; the other replies are discarded.
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
      state.caller = CallerOf(*context);
      if (state.refusals.empty()) return std::nullopt;
      const Refusal refusal = state.refusals.front();
      state.refusals.erase(state.refusals.begin());
      return refusal;
    });
  }

  grpc::Status EndWith(const Refusal& refusal, const std::string& name,
                       grpc::ServerContext* context) {
    const std::string id =
        With(name, [&](auto& state) { return state.request_id = "scripted-" + name; });
    context->AddTrailingMetadata(kRequestIdKey, id);
    if (refusal.retry_after_ms)
      context->AddTrailingMetadata("grpc-retry-pushback-ms", *refusal.retry_after_ms);
    return {static_cast<grpc::StatusCode>(refusal.status.code()),
            std::string(refusal.status.message())};
  }

  // Passes one reply to the client. Returns false if there is none, or if the test ends the call.
  bool PassReply(const std::string& name, ToServer* server, ToClient* client,
                 std::optional<Refusal>* end) {
    ByteBuffer reply;
    if (!server->Read(&reply)) return false;
    if (const auto hook = With(name, [](auto& state) { return state.hook; })) {
      std::string bytes = BytesOf(reply);
      *end = (*hook)(&bytes);
      const grpc::Slice slice(bytes);
      reply = ByteBuffer(&slice, 1);
    }
    if (*end && !(*end)->after_reply) return false;
    return client->Write(reply) && !*end;
  }

  std::deque<std::string> paths_;
  std::shared_ptr<grpc::Channel> channel_;
  std::mutex mutex_;
  std::map<std::string, MethodState> methods_;  // by name, under the lock
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

struct TestServer::Impl : Proxy {
  // Ends the server first, which ends all calls through the proxy.
  ~Impl() {
    ended.Notify();
    server.End();
    Stop();
  }

  absl::Notification ended;
  RealServer server;
  std::string address;
};

TestServer::TestServer() : impl_(std::make_unique<Impl>()) {}
TestServer::~TestServer() = default;

void TestServer::Set(const std::string& setting, const std::string& value) {
  impl_->server.SetByName(setting, value);
}
void TestServer::KeepData() { impl_->server.KeepData(); }
void TestServer::Listen() { impl_->server.Listen(); }
std::string TestServer::address() const {
  if (impl_->server.channel() == nullptr) impl_->server.Serve();
  if (impl_->address.empty()) impl_->address = impl_->Start(impl_->server.channel());
  return impl_->address;
}
void TestServer::StartDrain() { impl_->server.StartDrain(); }

void TestServer::Refuse(const std::string& method, std::vector<Refusal> refusals) {
  impl_->With(method, [&](auto& state) { state.refusals = std::move(refusals); });
}
void TestServer::AwaitEnd(std::chrono::milliseconds wait_max) {
  impl_->ended.WaitForNotificationWithTimeout(absl::FromChrono(wait_max));
}
void TestServer::SetHook(const std::string& method, Hook hook) {
  impl_->With(method, [&](auto& state) { state.hook = std::make_shared<Hook>(std::move(hook)); });
}

CallRecord TestServer::record(const std::string& method) const {
  return impl_->With(method, [](auto& state) { return CallRecord(state); });
}

}  // namespace nearfield::client
