// InProcessServer: a server in this process, with a real channel to it. ServerFixture: a test
// fixture that is one.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/ingest.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"
#include "server/config/settings.h"
#include "server/process/engine_factory.h"
#include "server/process/server.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {

namespace pb = ::nearfield::v1;

// Returns what is wrong with the google.rpc details of a status; empty if nothing is. An
// INVALID_ARGUMENT must have all details. Other statuses are not checked, because gRPC creates some
// without details.
std::string DetailsProblem(const grpc::Status& status);

// Matches a grpc::Status with this code, valid details and, if given, a matching message.
MATCHER_P(HasCode, code, "has the code " + std::to_string(static_cast<int>(code))) {
  *result_listener << "code " << static_cast<int>(arg.error_code()) << ": " << arg.error_message()
                   << DetailsProblem(arg);
  return arg.error_code() == code && DetailsProblem(arg).empty();
}
MATCHER_P2(HasCodeAndMessage, code, message,
           "has the code " + std::to_string(static_cast<int>(code)) + " and a message") {
  *result_listener << "code " << static_cast<int>(arg.error_code()) << ": " << arg.error_message()
                   << DetailsProblem(arg);
  return arg.error_code() == code && ::testing::Matches(message)(arg.error_message()) &&
         DetailsProblem(arg).empty();
}

// Keeps no data, audits nothing and logs every request, unless Set says otherwise.
class InProcessServer {
 public:
  InProcessServer();
  ~InProcessServer();
  InProcessServer(const InProcessServer&) = delete;
  InProcessServer& operator=(const InProcessServer&) = delete;

  // Call it before Listen.
  void Set(SettingBase& setting, const std::string& value);
  // Listens; health is NOT_SERVING.
  void Listen();
  // Listens and serves.
  void Serve();
  void Drain();
  std::vector<std::string> LogLines();

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
  grpc::Status CreateCollection(const std::string& name, uint32_t dim = 2,
                                pb::Metric metric = pb::METRIC_DOT,
                                pb::IdType id_type = pb::ID_TYPE_UINT64);
  // Uploads the row (id, 1) for each id, as fp32 with dim 2.
  grpc::Status UploadRows(const std::string& name, const std::vector<uint64_t>& ids,
                          const std::string& payload = "");
  // Device memory of such a row: its values, its norm and its rank.
  static constexpr int64_t kDeviceRowBytes = 8 + 8 + 4;

  // Serves a collection "c" with the rows 1, 2, 3, 4.
  void ServeRows();
  grpc::Status Search(const pb::SearchRequest& request, pb::SearchResponse* response = nullptr);

  static pb::SearchRequest SearchFor(const std::string& collection,
                                     const std::vector<float>& vector);
  static pb::UploadRequest Begin(const std::string& collection, uint64_t rows_max,
                                 uint64_t payload_bytes_max = 0);
  static pb::UploadRequest Block(const std::vector<uint64_t>& ids, const std::string& payload = "");
  static pb::UploadRequest Commit();
  static std::string Bytes(const std::vector<float>& values);

  static std::optional<std::string> Trailer(const grpc::ClientContext& context,
                                            const std::string& key);
};

}  // namespace nearfield::server
