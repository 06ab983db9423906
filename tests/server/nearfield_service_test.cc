// Tests of NearfieldService in process: a call without gRPC has the same answer as the same call
// over gRPC, to the bit, and the same errors, log line and counters.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "nearfield/engine/engine.h"
#include "server/calls/nearfield_service.h"
#include "tests/server/in_process_call.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kOk = grpc::StatusCode::OK;
constexpr int kRowsCount = 300;

using SearchAllCall = InProcessReplies<ReplyStream<pb::SearchResponse>, pb::SearchResponse>;
using SearchStreamCall = InProcessMessages<pb::SearchRequest, pb::SearchResponse>;
using UploadCall = InProcessMessages<pb::UploadRequest, pb::UploadResponse>;

// Clears the times, which no two calls have in common.
void ClearTimes(pb::SearchResponse* response) {
  pb::SearchCost* const cost = response->mutable_cost();
  cost->clear_queue_us();
  cost->clear_device_us();
  cost->clear_total_us();
}

// Returns the bytes of the replies without their times.
std::vector<std::string> BytesOf(std::vector<pb::SearchResponse> replies) {
  std::vector<std::string> bytes;
  for (pb::SearchResponse& reply : replies) {
    ClearTimes(&reply);
    bytes.push_back(reply.SerializeAsString());
  }
  return bytes;
}

class NearfieldServiceTest : public ServerFixture {
 protected:
  NearfieldServiceTest() {
    for (SettingBase* const setting :
         std::vector<SettingBase*>{&settings_.memory_bytes, &settings_.host_memory_bytes}) {
      Set(*setting, "64MiB");
    }
    Set(settings_.backend, "cpu");
    Set(settings_.threads, "1");
    make_engine_ = &Engine::Create;
  }

  NearfieldService& service() { return server_->service(); }

  template <typename Request, typename Response>
  CallEnd Call(ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>),
               const Request& request, Response* response, CallFacts facts = {}) {
    InProcessUnary call(std::move(facts));
    call.Bind((service().*method)({&call, std::make_shared<const Request>(request), response}));
    return call.AwaitEnd();
  }

  static pb::CreateCollectionRequest CreateRequest(const std::string& name) {
    pb::CreateCollectionRequest request;
    request.set_name(name);
    request.set_dim(2);
    request.set_metric(pb::METRIC_DOT);
    request.set_dtype(pb::DATA_TYPE_FLOAT32);
    request.set_id_type(pb::ID_TYPE_UINT64);
    return request;
  }

  // The messages of one upload of kRowsCount rows.
  static std::vector<pb::UploadRequest> Upload(const std::string& name) {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < kRowsCount; ++id) ids.push_back(id * 7 % kRowsCount);
    const std::vector<uint64_t> first(ids.begin(), ids.begin() + kRowsCount / 3);
    const std::vector<uint64_t> second(ids.begin() + kRowsCount / 3, ids.end());
    return {Begin(name, kRowsCount, kRowsCount * 7), Block(first, "payload"),
            Block(second, "payload"), Commit()};
  }

  // Uploads in process. Returns the last response.
  pb::UploadResponse UploadInProcess(const std::string& name, CallEnd* end) {
    pb::UploadResponse response;
    UploadCall call;
    call.Bind(service().Upload(&call));
    for (const pb::UploadRequest& request : Upload(name)) call.Send(&request);
    while (call.Next(&response)) {
    }
    *end = call.AwaitEnd();
    return response;
  }
  pb::UploadResponse UploadOverGrpc(const std::string& name, grpc::Status* status) {
    pb::UploadResponse response;
    grpc::ClientContext context;
    const auto stream = ingest_->Upload(&context);
    for (const pb::UploadRequest& request : Upload(name)) stream->Write(request);
    stream->WritesDone();
    pb::UploadResponse last;
    while (stream->Read(&response)) last = response;
    *status = stream->Finish();
    return last;
  }

  // Serves the collections "a", made in process, and "b", made over gRPC.
  void ServeBoth() {
    Serve();
    CallEnd end;
    pb::CreateCollectionResponse created;
    end = Call(&NearfieldService::CreateCollection, CreateRequest("a"), &created);
    ASSERT_OK(end.status);
    grpc::ClientContext context;
    ASSERT_THAT(admin_->CreateCollection(&context, CreateRequest("b"), &created_over_grpc_),
                HasCode(kOk));
    created_in_process_ = created;
    committed_in_process_ = UploadInProcess("a", &end);
    ASSERT_OK(end.status);
    grpc::Status status;
    committed_over_grpc_ = UploadOverGrpc("b", &status);
    ASSERT_THAT(status, HasCode(kOk));
  }

  pb::CreateCollectionResponse created_in_process_;
  pb::CreateCollectionResponse created_over_grpc_;
  pb::UploadResponse committed_in_process_;
  pb::UploadResponse committed_over_grpc_;
};

TEST_F(NearfieldServiceTest, CreateCollectionAndUploadAnswerAsOverGrpc) {
  ServeBoth();
  // Each collection has a name and a random incarnation of its own.
  EXPECT_EQ(created_in_process_.collection().name(), "a");
  created_in_process_.mutable_collection()->set_name("b");
  for (pb::CreateCollectionResponse* const created : {&created_in_process_, &created_over_grpc_}) {
    EXPECT_NE(created->collection().incarnation(), 0u);
    created->mutable_collection()->clear_incarnation();
  }
  EXPECT_EQ(created_in_process_.SerializeAsString(), created_over_grpc_.SerializeAsString());
  for (pb::UploadResponse* const response : {&committed_in_process_, &committed_over_grpc_}) {
    ASSERT_TRUE(response->has_committed());
    EXPECT_EQ(response->committed().rows_count(), static_cast<uint64_t>(kRowsCount));
    response->mutable_committed()->clear_incarnation();
  }
  EXPECT_EQ(committed_in_process_.SerializeAsString(), committed_over_grpc_.SerializeAsString());
}

TEST_F(NearfieldServiceTest, SearchAnswersAsOverGrpc) {
  ServeBoth();
  for (const char* const name : {"a", "b"}) {
    pb::SearchRequest request = SearchFor(name, {1, -3});
    request.set_k(20);
    request.set_with_payload(true);
    request.set_with_vectors(true);
    request.set_with_digest(true);
    request.set_with_cursor(true);
    pb::SearchResponse in_process;
    ASSERT_OK(Call(&NearfieldService::Search, request, &in_process).status);
    pb::SearchResponse over_grpc;
    ASSERT_THAT(Search(request, &over_grpc), HasCode(kOk));
    ASSERT_EQ(in_process.results(0).scores_size(), 20);
    EXPECT_EQ(in_process.result_digest(), over_grpc.result_digest());
    EXPECT_EQ(BytesOf({in_process}), BytesOf({over_grpc})) << name;
  }
}

TEST_F(NearfieldServiceTest, CountAndFetchAnswerAsOverGrpc) {
  ServeBoth();
  pb::CountRequest count;
  count.set_collection("a");
  pb::CountResponse counted;
  ASSERT_OK(Call(&NearfieldService::Count, count, &counted).status);
  pb::CountResponse counted_over_grpc;
  grpc::ClientContext context;
  ASSERT_THAT(retrieval_->Count(&context, count, &counted_over_grpc), HasCode(kOk));
  EXPECT_EQ(counted.rows_count(), static_cast<uint64_t>(kRowsCount));
  EXPECT_EQ(counted.SerializeAsString(), counted_over_grpc.SerializeAsString());
  pb::FetchRequest fetch;
  fetch.set_collection("a");
  for (const uint64_t id : {3, 1, 1000}) fetch.mutable_ids()->add_numbers(id);
  pb::FetchResponse fetched;
  ASSERT_OK(Call(&NearfieldService::Fetch, fetch, &fetched).status);
  pb::FetchResponse fetched_over_grpc;
  grpc::ClientContext fetch_context;
  ASSERT_THAT(retrieval_->Fetch(&fetch_context, fetch, &fetched_over_grpc), HasCode(kOk));
  EXPECT_THAT(fetched.missing().numbers(), ElementsAre(1000));
  EXPECT_EQ(fetched.SerializeAsString(), fetched_over_grpc.SerializeAsString());
}

TEST_F(NearfieldServiceTest, SearchAllSendsThePagesThatItSendsOverGrpc) {
  ServeBoth();
  pb::SearchAllRequest request;
  *request.mutable_search() = SearchFor("a", {2, 1});
  request.mutable_search()->set_k(70);
  std::vector<pb::SearchResponse> in_process;
  {
    SearchAllCall call;
    call.Bind(service().SearchAll(&call, std::make_shared<const pb::SearchAllRequest>(request)));
    for (pb::SearchResponse page; call.Next(&page);) in_process.push_back(page);
    EXPECT_OK(call.AwaitEnd().status);
  }
  std::vector<pb::SearchResponse> over_grpc;
  grpc::ClientContext context;
  const auto reader = retrieval_->SearchAll(&context, request);
  for (pb::SearchResponse page; reader->Read(&page);) over_grpc.push_back(page);
  EXPECT_THAT(reader->Finish(), HasCode(kOk));
  EXPECT_THAT(in_process, SizeIs(5));  // 300 rows, 70 at a time
  EXPECT_EQ(BytesOf(in_process), BytesOf(over_grpc));
}

TEST_F(NearfieldServiceTest, SearchStreamAnswersInOrderAsOverGrpc) {
  ServeBoth();
  std::vector<pb::SearchRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(SearchFor("a", {static_cast<float>(i), 1}));
    requests.back().set_k(static_cast<uint32_t>(1 + i));
  }
  // One search at a time, so that none share a pass.
  std::vector<pb::SearchResponse> in_process;
  {
    SearchStreamCall call;
    call.Bind(service().SearchStream(&call));
    pb::SearchResponse reply;
    for (const pb::SearchRequest& request : requests) {
      ASSERT_TRUE(call.Send(&request));
      ASSERT_TRUE(call.Next(&reply));
      in_process.push_back(reply);
    }
    EXPECT_TRUE(call.Send(nullptr));
    EXPECT_FALSE(call.Next(&reply));
    EXPECT_OK(call.AwaitEnd().status);
  }
  std::vector<pb::SearchResponse> over_grpc;
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  for (const pb::SearchRequest& request : requests) {
    ASSERT_TRUE(stream->Write(request));
    pb::SearchResponse reply;
    ASSERT_TRUE(stream->Read(&reply));
    over_grpc.push_back(reply);
  }
  stream->WritesDone();
  EXPECT_THAT(stream->Finish(), HasCode(kOk));
  EXPECT_EQ(BytesOf(in_process), BytesOf(over_grpc));
}

TEST_F(NearfieldServiceTest, ErrorsAreThoseOverGrpc) {
  ServeBoth();
  pb::SearchRequest unknown = SearchFor("unknown", {1, 1});
  pb::SearchRequest too_long = SearchFor("a", {1, 1, 1});
  for (const pb::SearchRequest& request : {unknown, too_long}) {
    pb::SearchResponse response;
    const CallEnd end = Call(&NearfieldService::Search, request, &response);
    const grpc::Status status = Search(request);
    EXPECT_EQ(static_cast<int>(end.status.code()), static_cast<int>(status.error_code()));
    EXPECT_EQ(std::string(end.status.message()), status.error_message());
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(end.retry_after_ms.has_value());
  }
  pb::SearchResponse response;
  const CallEnd named = Call(&NearfieldService::Search, SearchFor("a", {1, 1}), &response,
                             {.caller_name = std::string(129, 'n')});
  EXPECT_THAT(named.status, absl_testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("nearfield-caller")));
  const CallEnd refused = Call(&NearfieldService::Search, SearchFor("a", {1, 1}), &response,
                               {.status = absl::ResourceExhaustedError("of the transport")});
  EXPECT_THAT(refused.status,
              absl_testing::StatusIs(absl::StatusCode::kResourceExhausted, "of the transport"));
}

TEST_F(NearfieldServiceTest, CancelAndDeadlineEndACallThatWaits) {
  ServeBoth();
  pb::SearchRequest request = SearchFor("a", {1, 1});
  request.set_min_epoch(1000);
  pb::SearchResponse response;
  {
    InProcessUnary call;
    call.Bind(
        service().Search({&call, std::make_shared<const pb::SearchRequest>(request), &response}));
    call.Cancel();
    EXPECT_THAT(call.AwaitEnd().status, absl_testing::StatusIs(absl::StatusCode::kCancelled));
  }
  const CallEnd late =
      Call(&NearfieldService::Search, request, &response,
           {.deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(50)});
  EXPECT_THAT(late.status, absl_testing::StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(NearfieldServiceTest, ACallIsLoggedAndCountedWithItsRequestId) {
  ServeBoth();
  pb::SearchResponse response;
  const CallEnd end = Call(&NearfieldService::Search, SearchFor("a", {1, 1}), &response,
                           {.request_id = "chosen-by-the-caller", .peer = "in-process"});
  ASSERT_OK(end.status);
  EXPECT_EQ(end.request_id, "chosen-by-the-caller");
  pb::GetCountersResponse counters;
  ASSERT_OK(Call(&NearfieldService::GetCounters, pb::GetCountersRequest(), &counters).status);
  uint64_t searches = 0;
  for (const pb::CallCounter& counter : counters.calls()) {
    if (counter.method() == "Search" && counter.status() == "OK") searches = counter.calls_count();
  }
  EXPECT_EQ(searches, 1u);
  Drain();
  bool logged = false;
  for (const std::string& text : LogLines()) {
    const nlohmann::json line = nlohmann::json::parse(text);
    if (line["message"] != "request" || line["request_id"] != "chosen-by-the-caller") continue;
    logged = true;
    EXPECT_EQ(line["method"], "Search");
    EXPECT_EQ(line["peer"], "in-process");
  }
  EXPECT_TRUE(logged);
}

TEST_F(NearfieldServiceTest, AServerThatDoesNotServeRefusesCallsWithAHint) {
  Listen();
  pb::SearchResponse response;
  const CallEnd end = Call(&NearfieldService::Search, SearchFor("a", {1, 1}), &response);
  EXPECT_THAT(end.status, absl_testing::StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(end.retry_after_ms, 1000);
  pb::GetLimitsResponse limits;
  EXPECT_OK(Call(&NearfieldService::GetLimits, pb::GetLimitsRequest(), &limits).status);
  EXPECT_GT(limits.k_max(), 0u);
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

}  // namespace
}  // namespace nearfield::server
