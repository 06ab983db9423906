// InProcessServer: a server in this process, with a real channel to it. ServerFixture: a test
// fixture that is one.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/ingest.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"
#include "server/boot/engine_factory.h"
#include "server/config/settings.h"
#include "server/process/server.h"
#include "tests/server/prelude.h"
#include "tests/testing/scripted_engine.h"
#include "tests/testing/text_message.h"

namespace nearfield::server {

namespace pb = ::nearfield::v1;
using testing::FromText;

// Returns what is wrong with the google.rpc details of a status; empty if nothing is. An
// INVALID_ARGUMENT must have all details. Other statuses are not checked, because gRPC creates some
// without details.
std::string DetailsProblem(const grpc::Status& status);

// Matches a grpc::Status with this code, valid details and, if given, a matching message.
MATCHER_P2(HasCode, code, message,
           "has the code " + std::to_string(static_cast<int>(code)) + " and a message") {
  *result_listener << "code " << static_cast<int>(arg.error_code()) << ": " << arg.error_message()
                   << DetailsProblem(arg);
  return static_cast<int>(arg.error_code()) == static_cast<int>(code) &&
         ::testing::Matches(message)(arg.error_message()) && DetailsProblem(arg).empty();
}
template <typename Code>
auto HasCode(Code code) {
  return HasCode(code, ::testing::_);
}
// As HasCode, for a message that contains every part.
template <typename... Parts>
auto RefusedWith(absl::StatusCode code, const Parts&... parts) {
  return HasCode(code, AllOf(HasSubstr(parts)...));
}

// The methods of the services, for ServerFixture::Call.
using Admin = pb::Admin::Stub;
using Health = grpc::health::v1::Health::Stub;
using Ingest = pb::Ingest::Stub;
using Retrieval = pb::Retrieval::Stub;

// A bidirectional stream with its context and the last response that was read.
template <typename Request, typename Response>
struct StreamCall {
  using Stream = grpc::ClientReaderWriter<Request, Response>;

  // Calls `open`, a method of the stub, and sends the requests.
  template <typename Stub>
  StreamCall(Stub& stub, std::unique_ptr<Stream> (Stub::*open)(grpc::ClientContext*),
             const std::vector<Request>& requests)
      : stream((stub.*open)(&context)) {
    for (const Request& request : requests) Write(request);
  }
  bool Write(const Request& request) { return stream->Write(request); }
  bool Read() { return stream->Read(&response); }
  grpc::Status Finish() { return stream->Finish(); }
  // Reads all responses. Returns the status of the call.
  grpc::Status ReadToEnd() {
    while (Read()) {
    }
    return Finish();
  }

  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
  Response response;
};
struct UploadCall : StreamCall<pb::UploadRequest, pb::UploadResponse> {
  explicit UploadCall(Ingest& stub, const std::vector<pb::UploadRequest>& requests = {})
      : StreamCall(stub, &Ingest::Upload, requests) {}
};
struct SearchStreamCall : StreamCall<pb::SearchRequest, pb::SearchResponse> {
  explicit SearchStreamCall(Retrieval& stub, const std::vector<pb::SearchRequest>& requests = {})
      : StreamCall(stub, &Retrieval::SearchStream, requests) {}
};

// Keeps no data, audits nothing and logs every request, unless Set says otherwise.
class InProcessServer {
 public:
  InProcessServer();
  ~InProcessServer();

  // Call it before Listen.
  void Set(SettingBase& setting, const std::string& value);
  // Listens; health is NOT_SERVING.
  void Listen();
  // Listens and serves.
  void Serve();
  void Drain();
  std::vector<std::string> LogLines();
  // Returns the log lines with this message.
  std::vector<nlohmann::json> LogLinesOf(const std::string& message);

 protected:
  std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  // Creates the server's engine; the scripted one unless a test sets another before Serve.
  EngineFactory make_engine_ = [this](const EngineOptions&) {
    return testing::MakeScriptedEngine(script_);
  };
  Settings settings_;
  SteadyClock clock_;
  const Clock* server_clock_ = &clock_;  // unless a test sets another before Listen
  std::mutex log_mutex_;
  std::vector<std::string> log_lines_;
  Log log_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::Retrieval::Stub> retrieval_;
  std::unique_ptr<pb::Ingest::Stub> ingest_;
  std::unique_ptr<pb::Admin::Stub> admin_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

class ServerFixture : public ::testing::Test, public InProcessServer {
 protected:
  // A method of a stub that takes one request and returns one response.
  template <typename Stub, typename Request, typename Response>
  using Unary = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

  // Calls a method: Call(&Admin::GetCounters, {}, &counters).
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(Unary<Stub, Request, Response> method,
                    const std::type_identity_t<Request>& request,
                    std::type_identity_t<Response>* response = nullptr,
                    grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    Response ignored;
    return (StubOf<Stub>().*method)(context == nullptr ? &own : context, request,
                                    response == nullptr ? &ignored : response);
  }
  // Returns the response to a call that must succeed.
  template <typename Stub, typename Request, typename Response>
  Response CallOk(Unary<Stub, Request, Response> method,
                  const std::type_identity_t<Request>& request = {}) {
    Response response;
    EXPECT_OK(Call(method, request, &response));
    return response;
  }
  // Expects that a call fails with such a status and with a hint when to retry it.
  template <typename Stub, typename Request, typename Response, typename Matcher>
  void ExpectRefusedWithHint(Unary<Stub, Request, Response> method,
                             const std::type_identity_t<Request>& request, Matcher status) {
    grpc::ClientContext context;
    EXPECT_THAT(Call(method, request, nullptr, &context), status);
    EXPECT_TRUE(Trailer(context, "grpc-retry-pushback-ms").has_value());
  }
  // Sends all requests of an upload, half-closes, and reads all responses.
  grpc::Status Send(const std::vector<pb::UploadRequest>& requests,
                    std::vector<pb::UploadResponse>* responses = nullptr,
                    grpc::ClientContext* context = nullptr);

  grpc::Status CreateCollection(const std::string& name, uint32_t dim = 2,
                                pb::Metric metric = pb::METRIC_DOT,
                                pb::IdType id_type = pb::ID_TYPE_UINT64);
  // Uploads the row (id, 1) for each id, as fp32 with dim 2.
  grpc::Status UploadRows(const std::string& name, const std::vector<uint64_t>& ids,
                          const std::string& payload = "");
  // Device memory of such a row: its values, its norm, its rank and its id.
  static constexpr int64_t kDeviceRowBytes = 8 + 8 + 4 + 8;

  // Waits until the last upload has released its memory.
  void AwaitNoUpload() {
    EXPECT_TRUE(Eventually([&] { return script_->uploads_open <= 0; }));
  }
  // Returns the number of rows of a collection.
  uint64_t RowsCount(const std::string& collection = "c") {
    return CallOk(&Retrieval::Count, Of(collection)).rows_count();
  }

  // Requests of any type that have only a name, or only a collection.
  static FromText Named(const std::string& name) { return FromText("name: '" + name + "'"); }
  static FromText Of(const std::string& collection) {
    return FromText("collection: '" + collection + "'");
  }

  // Serves an empty collection "c".
  void ServeEmpty();
  // Serves a collection "c" with the rows 1, 2, 3, 4.
  void ServeRows();
  grpc::Status Search(const pb::SearchRequest& request, pb::SearchResponse* response = nullptr,
                      grpc::ClientContext* context = nullptr) {
    return Call(&Retrieval::Search, request, response, context);
  }
  // As Search, but with the name of the caller, unless it is empty.
  grpc::Status SearchAs(const std::string& caller,
                        const pb::SearchRequest& request = SearchFor("c", {1, 0}),
                        pb::SearchResponse* response = nullptr);

  static pb::SearchRequest SearchFor(const std::string& collection,
                                     const std::vector<float>& vector);
  static pb::UploadRequest Begin(const std::string& collection, uint64_t rows_max,
                                 uint64_t payload_bytes_max = 0);
  static pb::UploadRequest Block(const std::vector<uint64_t>& ids, const std::string& payload = "");
  static pb::UploadRequest Commit() { return FromText("commit {}"); }
  static std::string Bytes(const std::vector<float>& values);

  static std::optional<std::string> Trailer(const grpc::ClientContext& context,
                                            const std::string& key);

 private:
  template <typename Stub>
  Stub& StubOf() {
    if constexpr (std::is_same_v<Stub, Admin>) return *admin_;
    if constexpr (std::is_same_v<Stub, Health>) return *health_;
    if constexpr (std::is_same_v<Stub, Ingest>) return *ingest_;
    if constexpr (std::is_same_v<Stub, Retrieval>) return *retrieval_;
  }
};

}  // namespace nearfield::server
