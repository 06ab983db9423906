#include "tests/client/fake_server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <mutex>

#include "client/formats/text.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "nearfield/v1/admin.grpc.pb.h"
#include "nearfield/v1/retrieval.grpc.pb.h"
#include "tests/client/fake_ingest.h"
#include "tests/client/fake_state.h"

namespace nearfield::client {
namespace {

v1::GetLimitsResponse GenerousLimits() {
  v1::GetLimitsResponse limits;
  limits.set_dim_max(8192);
  limits.set_k_max(4096);
  limits.set_queries_max(64);
  limits.set_fetch_ids_max(100);
  limits.set_request_bytes_max(uint64_t{8} << 20);
  limits.set_response_bytes_max(uint64_t{64} << 20);
  limits.set_upload_block_bytes_max(uint64_t{4} << 20);
  return limits;
}

class FakeRetrieval final : public v1::Retrieval::Service {
 public:
  explicit FakeRetrieval(FakeState& state) : state_(state) {}

  grpc::Status Search(grpc::ServerContext* context, const v1::SearchRequest* request,
                      v1::SearchResponse* response) override {
    return Handle(
        state_, "Search", context, [&] { return Answer(*request, response); }, request);
  }
  grpc::Status SearchAll(grpc::ServerContext* context, const v1::SearchAllRequest* request,
                         grpc::ServerWriter<v1::SearchResponse>* writer) override {
    int pages_max = 1 << 30;
    {
      const std::lock_guard<std::mutex> lock(state_.mutex);
      std::vector<int>& breaks = state_.script.pages_until_break;
      if (!breaks.empty()) {
        pages_max = breaks.front();
        breaks.erase(breaks.begin());
      }
    }
    v1::SearchRequest search = request->search();
    search.set_with_cursor(true);
    if (!search.has_k()) search.set_k(2);
    uint64_t left = request->has_results_max() ? request->results_max() : 1000;
    const grpc::Status refused = Handle(
        state_, "SearchAll", context, [] { return absl::OkStatus(); }, request);
    for (int pages = 0; refused.ok(); ++pages) {
      if (pages == pages_max) return {grpc::StatusCode::UNAVAILABLE, "broken"};
      search.set_k(static_cast<uint32_t>(std::min<uint64_t>(search.k(), left)));
      v1::SearchResponse page;
      const grpc::Status status =
          Handle(state_, "a page", context, [&] { return Answer(search, &page); });
      if (!status.ok()) return status;
      writer->Write(page);
      const v1::QueryResult& result = page.results(0);
      left -= static_cast<uint64_t>(result.scores_size());
      if (left == 0 || !result.has_next_cursor()) return grpc::Status::OK;
      search.set_cursor(result.next_cursor());
    }
    return refused;
  }
  grpc::Status SearchStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SearchResponse, v1::SearchRequest>* stream) override {
    v1::SearchRequest request;
    for (int answers = 0; stream->Read(&request); ++answers) {
      if (answers == state_.script.stream_answers_max) return grpc::Status::OK;
      v1::SearchResponse response;
      const grpc::Status status =
          Handle(state_, "SearchStream", context, [&] { return Answer(request, &response); });
      if (!status.ok()) return status;
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     v1::FetchResponse* response) override {
    return Handle(
        state_, "Fetch", context, [&] { return state_.store.Fetch(*request, response); }, request);
  }
  grpc::Status Count(grpc::ServerContext* context, const v1::CountRequest* request,
                     v1::CountResponse* response) override {
    return Handle(
        state_, "Count", context,
        [&] {
          const auto collection = state_.store.Find(request->collection());
          if (!collection.ok()) return collection.status();
          response->set_rows_count((*collection)->rows.size());
          response->set_epoch((*collection)->info.epoch());
          return absl::OkStatus();
        },
        request);
  }
  grpc::Status GetLimits(grpc::ServerContext* context, const v1::GetLimitsRequest*,
                         v1::GetLimitsResponse* response) override {
    return Handle(state_, "GetLimits", context, [&] {
      *response = state_.script.limits;
      return absl::OkStatus();
    });
  }

 private:
  absl::Status Answer(const v1::SearchRequest& request, v1::SearchResponse* response) {
    const absl::Status status = state_.store.Search(request, response);
    if (status.ok() && state_.script.tamper_search) state_.script.tamper_search(response);
    return status;
  }

  FakeState& state_;
};

class FakeAdmin final : public v1::Admin::Service {
 public:
  explicit FakeAdmin(FakeState& state) : state_(state) {}

  grpc::Status CreateCollection(grpc::ServerContext* context,
                                const v1::CreateCollectionRequest* request,
                                v1::CreateCollectionResponse* response) override {
    return Handle(state_, "CreateCollection", context,
                  [&] { return state_.store.Create(*request, response->mutable_collection()); });
  }
  grpc::Status DropCollection(grpc::ServerContext* context,
                              const v1::DropCollectionRequest* request,
                              v1::DropCollectionResponse* response) override {
    return Handle(state_, "DropCollection", context, [&] {
      uint64_t rows_count = 0;
      const absl::Status status = state_.store.Drop(request->name(), &rows_count);
      response->set_rows_count(rows_count);
      return status;
    });
  }
  grpc::Status GetCollection(grpc::ServerContext* context, const v1::GetCollectionRequest* request,
                             v1::GetCollectionResponse* response) override {
    return Handle(state_, "GetCollection", context, [&] {
      const auto collection = state_.store.Find(request->name());
      if (!collection.ok()) return collection.status();
      v1::CollectionInfo& info = *response->mutable_collection() = (*collection)->info;
      info.set_error(state_.script.collection_error);
      info.set_read_failures_count(state_.script.read_failures_count);
      if (!info.error().empty()) info.set_rows_count(0);
      return absl::OkStatus();
    });
  }
  grpc::Status ListCollections(grpc::ServerContext* context, const v1::ListCollectionsRequest*,
                               v1::ListCollectionsResponse* response) override {
    return Handle(state_, "ListCollections", context, [&] {
      for (const auto& [name, collection] : state_.store.all())
        *response->add_collections() = collection.info;
      return absl::OkStatus();
    });
  }
  grpc::Status GetCapacity(grpc::ServerContext* context, const v1::GetCapacityRequest*,
                           v1::GetCapacityResponse* response) override {
    return Handle(state_, "GetCapacity", context, [&] {
      response->set_backend(v1::BACKEND_CPU);
      response->set_device_name("a fake");
      response->set_device_bytes_total(1000000);
      response->set_device_bytes_used(250000);
      return absl::OkStatus();
    });
  }
  grpc::Status GetCounters(grpc::ServerContext* context, const v1::GetCountersRequest*,
                           v1::GetCountersResponse* response) override {
    return Handle(state_, "GetCounters", context, [&] {
      response->set_started_unix_ms(1715938200123);
      v1::CallCounter& calls = *response->add_calls();
      calls.set_method("Search");
      calls.set_status("OK");
      calls.set_calls_count(7);
      calls.set_rows_count(70);
      calls.set_total_us(14007);
      response->mutable_passes()->set_passes_count(5);
      response->mutable_passes()->set_queries_int8_count(6);
      response->mutable_passes()->set_bytes_read(3000000);
      response->mutable_passes()->mutable_escalations()->set_tighter(2);
      response->mutable_audit()->set_answers_audited_count(1);
      response->mutable_connections()->set_open_count(3);
      response->mutable_connections()->set_accepted_count(1200);
      response->mutable_connections()->set_refused_count(4);
      response->mutable_connections()->set_pauses_count(5);
      response->set_log_lines_dropped_count(8);
      return absl::OkStatus();
    });
  }
  grpc::Status SetAlias(grpc::ServerContext* context, const v1::SetAliasRequest* request,
                        v1::SetAliasResponse* response) override {
    return Handle(state_, "SetAlias", context,
                  [&] { return state_.store.SetAlias(*request, response); });
  }
  grpc::Status DropAlias(grpc::ServerContext* context, const v1::DropAliasRequest* request,
                         v1::DropAliasResponse* response) override {
    return Handle(state_, "DropAlias", context,
                  [&] { return state_.store.DropAlias(*request, response); });
  }
  grpc::Status CreateSnapshot(grpc::ServerContext* context,
                              const v1::CreateSnapshotRequest* request,
                              v1::CreateSnapshotResponse* response) override {
    return Handle(state_, "CreateSnapshot", context, [&] {
      v1::SnapshotInfo& info = *response->mutable_snapshot();
      info.set_name(request->name());
      info.set_files_count(3);
      info.set_bytes(12345);
      info.set_created_unix_s(1715938200);
      snapshots_.push_back(info);
      return absl::OkStatus();
    });
  }
  grpc::Status ListSnapshots(grpc::ServerContext* context, const v1::ListSnapshotsRequest*,
                             v1::ListSnapshotsResponse* response) override {
    return Handle(state_, "ListSnapshots", context, [&] {
      for (const v1::SnapshotInfo& info : snapshots_) *response->add_snapshots() = info;
      return absl::OkStatus();
    });
  }
  grpc::Status Compact(grpc::ServerContext* context, const v1::CompactRequest* request,
                       v1::CompactResponse* response) override {
    return Handle(state_, "Compact", context, [&] {
      response->set_rows_given_back(1234);
      response->set_device_bytes_given_back(2000);
      response->set_host_bytes_given_back(3000);
      response->set_stored_rows_given_back(5);
      response->set_stored_bytes_given_back(4000);
      return state_.store.Find(request->collection()).status();
    });
  }
  grpc::Status Verify(grpc::ServerContext* context, const v1::VerifyRequest* request,
                      v1::VerifyResponse* response) override {
    return Handle(
        state_, "Verify", context,
        [&] {
          if (state_.script.epoch_moves > 0) {
            --state_.script.epoch_moves;
            return absl::FailedPreconditionError("epoch: the collection has moved on");
          }
          const absl::Status status = state_.store.Verify(*request, response);
          if (status.ok() && state_.script.verify_lies) {
            response->set_equal(false);
            response->set_first_difference(0);
            response->set_explanation("made up");
          }
          return status;
        },
        request);
  }

 private:
  FakeState& state_;
  std::vector<v1::SnapshotInfo> snapshots_;
};

namespace health_v1 = grpc::health::v1;

class FakeHealth final : public health_v1::Health::Service {
 public:
  explicit FakeHealth(FakeState& state) : state_(state) {}

  grpc::Status Check(grpc::ServerContext* context, const health_v1::HealthCheckRequest* request,
                     health_v1::HealthCheckResponse* response) override {
    return Handle(state_, "Check", context, [&] {
      if (!request->service().empty()) return absl::NotFoundError("unknown service");
      response->set_status(Status());
      return absl::OkStatus();
    });
  }

  grpc::Status Watch(grpc::ServerContext*, const health_v1::HealthCheckRequest*,
                     grpc::ServerWriter<health_v1::HealthCheckResponse>* writer) override {
    std::unique_lock<std::mutex> lock(state_.mutex);
    while (!state_.stopping) {
      const bool shown = state_.serving;
      health_v1::HealthCheckResponse response;
      response.set_status(Status());
      lock.unlock();
      if (!writer->Write(response)) return grpc::Status::OK;
      lock.lock();
      state_.changed.wait(lock, [&] { return state_.stopping || state_.serving != shown; });
    }
    return {grpc::StatusCode::UNAVAILABLE, "stopping"};
  }

 private:
  health_v1::HealthCheckResponse::ServingStatus Status() const {
    return state_.serving ? health_v1::HealthCheckResponse::SERVING
                          : health_v1::HealthCheckResponse::NOT_SERVING;
  }

  FakeState& state_;
};

}  // namespace

class FakeServer::Impl {
 public:
  Impl() : retrieval_(state_), ingest_(state_), admin_(state_), health_(state_) {
    state_.script.limits = GenerousLimits();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&retrieval_);
    builder.RegisterService(&ingest_);
    builder.RegisterService(&admin_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
  }

  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(state_.mutex);
      state_.stopping = true;
    }
    state_.changed.notify_all();
    server_->Shutdown();
  }

  FakeState& state() { return state_; }
  int port() const { return port_; }

 private:
  FakeState state_;
  FakeRetrieval retrieval_;
  FakeIngest ingest_;
  FakeAdmin admin_;
  FakeHealth health_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::string FakeServer::last_bytes(const std::string& method) const {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.last[method];
}

std::string FakeServer::caller(const std::string& method) const {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.callers[method];
}

std::vector<v1::UploadBlock> FakeServer::blocks() const {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.blocks;
}

FakeServer::FakeServer() : impl_(std::make_unique<Impl>()) {}
FakeServer::~FakeServer() = default;

std::string FakeServer::address() const { return Cat("127.0.0.1:", impl_->port()); }
FakeServerScript& FakeServer::script() { return impl_->state().script; }

void FakeServer::Refuse(const std::string& method, std::vector<Refusal> refusals) {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.refusals[method].assign(refusals.begin(), refusals.end());
}

void FakeServer::SetServing(bool serving) {
  FakeState& state = impl_->state();
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    state.serving = serving;
  }
  state.changed.notify_all();
}

int FakeServer::calls(const std::string& method) const {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.calls[method];
}

std::vector<int64_t> FakeServer::deadlines_ms(const std::string& method) const {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.deadlines_ms[method];
}

std::vector<uint64_t> FakeServer::block_bytes() const {
  FakeState& state = impl_->state();
  const std::lock_guard<std::mutex> lock(state.mutex);
  return state.block_bytes;
}

void FakeServer::AwaitAbandonedUpload() {
  FakeState& state = impl_->state();
  std::unique_lock<std::mutex> lock(state.mutex);
  state.changed.wait(lock, [&] { return state.uploads_abandoned > 0; });
}

}  // namespace nearfield::client
