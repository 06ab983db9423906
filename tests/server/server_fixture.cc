#include "tests/server/server_fixture.h"

#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace nearfield::server {

std::string DetailsProblem(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) return "";
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "; its details cannot be decoded";
  if (details.code() != status.error_code() || details.message() != status.error_message()) {
    return "; its details are of another status";
  }
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  for (const auto& detail : details.details()) {
    detail.UnpackTo(&info);
    detail.UnpackTo(&bad);
  }
  if (info.domain() != "nearfield" || info.reason() != "INVALID_ARGUMENT") return "; no ErrorInfo";
  if (bad.field_violations_size() != 1) return "; no BadRequest";
  const std::string& field = bad.field_violations(0).field();
  if (field.empty() || info.metadata().count("field") == 0 || info.metadata().at("field") != field)
    return "; no field";
  if (details.message().find(bad.field_violations(0).description()) == std::string::npos ||
      bad.field_violations(0).description().empty()) {
    return "; no description";
  }
  return "";
}

InProcessServer::InProcessServer()
    : log_(LogFormat::kJson, LogLevel::kInfo, [this](const std::string& line) {
        const std::lock_guard lock(log_mutex_);
        log_lines_.push_back(line);
      }) {
  Set(settings_.listen, "127.0.0.1:0");
}

InProcessServer::~InProcessServer() { Drain(); }

void InProcessServer::Set(SettingBase& setting, const std::string& value) {
  ASSERT_OK(setting.Set(value, SettingSource::kFlag));
}

void InProcessServer::Listen() {
  if (settings_.data_dir.source() == SettingSource::kDefault) Set(settings_.data_dir, "none");
  if (settings_.audit_one_in.source() == SettingSource::kDefault) Set(settings_.audit_one_in, "0");
  for (TextSetting* const each : {&settings_.ops_listen, &settings_.http_listen}) {
    if (each->source() == SettingSource::kDefault) Set(*each, "none");
  }
  if (settings_.log_requests.source() == SettingSource::kDefault) {
    Set(settings_.log_requests, "all");
  }
  ASSERT_OK(settings_.Validate());
  server_ = std::make_unique<Server>(&settings_, &log_, server_clock_);
  ASSERT_OK(server_->Listen());
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ =
      grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), arguments);
  retrieval_ = pb::Retrieval::NewStub(channel_);
  ingest_ = pb::Ingest::NewStub(channel_);
  admin_ = pb::Admin::NewStub(channel_);
  health_ = grpc::health::v1::Health::NewStub(channel_);
}

void InProcessServer::Serve() {
  Listen();
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

void InProcessServer::Drain() {
  if (server_ == nullptr) return;
  const ExitCode expected = !script_->device->Health().ok() ? ExitCode::kDeviceLost
                            : server_->state().distrusted() ? ExitCode::kSelfTest
                                                            : ExitCode::kClean;
  EXPECT_EQ(server_->Drain(), expected);
  server_ = nullptr;
}

grpc::Status ServerFixture::CreateCollection(const std::string& name, uint32_t dim,
                                             pb::Metric metric, pb::IdType id_type) {
  pb::CreateCollectionRequest request;
  request.set_name(name);
  request.set_dim(dim);
  request.set_metric(metric);
  request.set_dtype(pb::DATA_TYPE_FLOAT32);
  request.set_id_type(id_type);
  return Call(&Admin::CreateCollection, request);
}

grpc::Status ServerFixture::Send(const std::vector<pb::UploadRequest>& requests,
                                 std::vector<pb::UploadResponse>* responses,
                                 grpc::ClientContext* context) {
  grpc::ClientContext own;
  const auto stream = ingest_->Upload(context == nullptr ? &own : context);
  for (const pb::UploadRequest& request : requests) {
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  for (pb::UploadResponse response; stream->Read(&response);) {
    if (responses != nullptr) responses->push_back(response);
  }
  return stream->Finish();
}

grpc::Status ServerFixture::UploadRows(const std::string& name, const std::vector<uint64_t>& ids,
                                       const std::string& payload) {
  return Send(
      {Begin(name, ids.size(), ids.size() * payload.size()), Block(ids, payload), Commit()});
}

void ServerFixture::ServeEmpty() {
  Serve();
  ASSERT_OK(CreateCollection("c"));
}

void ServerFixture::ServeRows() {
  ServeEmpty();
  ASSERT_OK(UploadRows("c", {1, 2, 3, 4}, "payload"));
}

grpc::Status ServerFixture::SearchAs(const std::string& caller, const pb::SearchRequest& request,
                                     pb::SearchResponse* response) {
  grpc::ClientContext context;
  if (!caller.empty()) context.AddMetadata("nearfield-caller", caller);
  return Search(request, response, &context);
}

pb::SearchRequest ServerFixture::SearchFor(const std::string& collection,
                                           const std::vector<float>& vector) {
  pb::SearchRequest request;
  request.set_collection(collection);
  request.add_queries()->mutable_vector()->mutable_values()->Add(vector.begin(), vector.end());
  return request;
}

pb::UploadRequest ServerFixture::Begin(const std::string& collection, uint64_t rows_max,
                                       uint64_t payload_bytes_max) {
  pb::UploadRequest request;
  request.mutable_begin()->set_collection(collection);
  request.mutable_begin()->set_rows_max(rows_max);
  request.mutable_begin()->set_payload_bytes_max(payload_bytes_max);
  return request;
}

pb::UploadRequest ServerFixture::Block(const std::vector<uint64_t>& ids,
                                       const std::string& payload) {
  pb::UploadRequest request;
  std::vector<float> values;
  for (const uint64_t id : ids) {
    request.mutable_block()->mutable_ids()->add_numbers(id);
    values.insert(values.end(), {static_cast<float>(id), 1.0f});
    if (!payload.empty()) request.mutable_block()->add_payloads(payload);
  }
  request.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  request.mutable_block()->mutable_vectors()->set_data(Bytes(values));
  return request;
}

std::string ServerFixture::Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::optional<std::string> ServerFixture::Trailer(const grpc::ClientContext& context,
                                                  const std::string& key) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find(key);
  if (it == trailers.end()) return std::nullopt;
  return std::string(it->second.data(), it->second.size());
}

std::vector<std::string> InProcessServer::LogLines() {
  const std::lock_guard lock(log_mutex_);
  return log_lines_;
}

std::vector<nlohmann::json> InProcessServer::LogLinesOf(const std::string& message) {
  std::vector<nlohmann::json> lines;
  for (const std::string& text : LogLines()) {
    nlohmann::json line = nlohmann::json::parse(text);
    if (line["message"] == message) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace nearfield::server
