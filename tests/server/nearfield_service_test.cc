// Tests of NearfieldService in process: a call without gRPC has the same answer as the same call
// over gRPC, to the bit, and the same errors, log line and counters.
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "nearfield/engine/engine.h"
#include "server/rpc/nearfield_service.h"
#include "server/rpc/waiting_call.h"
#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

constexpr int kRowsCount = 300;

using SearchAllInProcess = WaitingReplies<ReplyStream<pb::SearchResponse>, pb::SearchResponse>;
using ScanInProcess = WaitingReplies<ReplyStream<pb::ScanResponse>, pb::ScanResponse>;
using SearchStreamInProcess = WaitingMessages<pb::SearchRequest, pb::SearchResponse>;

// Returns the bytes of the replies without their times, which no two calls have in common.
std::vector<std::string> BytesOf(std::vector<pb::SearchResponse> replies) {
  std::vector<std::string> bytes;
  for (pb::SearchResponse& reply : replies) {
    pb::SearchCost* const cost = reply.mutable_cost();
    cost->clear_queue_us();
    cost->clear_device_us();
    cost->clear_total_us();
    bytes.push_back(reply.SerializeAsString());
  }
  return bytes;
}

// Returns the request as a transport passes it on.
template <typename Request>
Incoming<Request> Decoded(const Request& request) {
  return [shared = std::make_shared<const Request>(request)] {
    return absl::StatusOr<std::shared_ptr<const Request>>(shared);
  };
}

class NearfieldServiceTest : public ServerFixture {
 protected:
  NearfieldServiceTest() {
    Set(settings_.memory_bytes, "64MiB");
    Set(settings_.host_memory_bytes, "64MiB");
    Set(settings_.backend, "cpu");
    Set(settings_.threads, "1");
    make_engine_ = &Engine::Create;
  }

  NearfieldService& service() { return server_->service(); }

  template <typename Request, typename Response>
  CallEnd CallInProcess(ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>),
                        const Request& request, Response* response, CallFacts facts = {}) {
    WaitingUnary call(std::move(facts));
    call.Bind((service().*method)({&call, std::make_shared<const Request>(request), response}));
    return call.AwaitEnd();
  }

  // Returns the response to a call that must succeed.
  template <typename Request, typename Response>
  Response CallInProcessOk(ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>),
                           const std::type_identity_t<Request>& request = {}) {
    Response response;
    EXPECT_OK(CallInProcess(method, request, &response).status);
    return response;
  }

  CallEnd SearchInProcess(const pb::SearchRequest& request, CallFacts facts = {}) {
    pb::SearchResponse response;
    return CallInProcess(&NearfieldService::Search, request, &response, std::move(facts));
  }

  static pb::CreateCollectionRequest CreateRequest(const std::string& name) {
    return FromText("name: '" + name +
                    "' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64");
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

  // Uploads in process. Sets `response` to the last response.
  absl::Status UploadInProcess(const std::string& name, pb::UploadResponse* response) {
    WaitingMessages<pb::UploadRequest, pb::UploadResponse> call;
    call.Bind(service().Upload(&call));
    for (const pb::UploadRequest& request : Upload(name)) call.Send(Decoded(request));
    while (call.Next(response)) {
    }
    return call.AwaitEnd().status;
  }

  // Serves the collections "a", made in process, and "b", made over gRPC.
  void ServeBoth() {
    Serve();
    created_in_process_ = CallInProcessOk(&NearfieldService::CreateCollection, CreateRequest("a"));
    ASSERT_OK(Call(&Admin::CreateCollection, CreateRequest("b"), &created_over_grpc_));
    ASSERT_OK(UploadInProcess("a", &committed_in_process_));
    std::vector<pb::UploadResponse> responses;
    ASSERT_OK(Send(Upload("b"), &responses));
    committed_over_grpc_ = responses.back();
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
    request.MergeFrom(pb::SearchRequest(FromText(
        "k: 20 with_payload: true with_vectors: true with_digest: true with_cursor: true")));
    const auto in_process = CallInProcessOk(&NearfieldService::Search, request);
    const auto over_grpc = CallOk(&Retrieval::Search, request);
    ASSERT_EQ(in_process.results(0).scores_size(), 20);
    EXPECT_EQ(in_process.result_digest(), over_grpc.result_digest());
    EXPECT_EQ(BytesOf({in_process}), BytesOf({over_grpc})) << name;
  }
}

TEST_F(NearfieldServiceTest, CountAndFetchAnswerAsOverGrpc) {
  ServeBoth();
  const pb::CountRequest count = FromText("collection: 'a'");
  const auto counted = CallInProcessOk(&NearfieldService::Count, count);
  EXPECT_EQ(counted.rows_count(), static_cast<uint64_t>(kRowsCount));
  EXPECT_EQ(counted.SerializeAsString(), CallOk(&Retrieval::Count, count).SerializeAsString());
  const pb::FetchRequest fetch = FromText("collection: 'a' ids { numbers: [3, 1, 1000] }");
  const auto fetched = CallInProcessOk(&NearfieldService::Fetch, fetch);
  EXPECT_THAT(fetched.missing().numbers(), ElementsAre(1000));
  EXPECT_EQ(fetched.SerializeAsString(), CallOk(&Retrieval::Fetch, fetch).SerializeAsString());
}

TEST_F(NearfieldServiceTest, SearchAllSendsThePagesThatItSendsOverGrpc) {
  ServeBoth();
  pb::SearchAllRequest request;
  *request.mutable_search() = SearchFor("a", {2, 1});
  request.mutable_search()->set_k(70);
  std::vector<pb::SearchResponse> in_process;
  {
    SearchAllInProcess call;
    call.Bind(service().SearchAll(&call, std::make_shared<const pb::SearchAllRequest>(request)));
    for (pb::SearchResponse page; call.Next(&page);) in_process.push_back(page);
    EXPECT_OK(call.AwaitEnd().status);
  }
  std::vector<pb::SearchResponse> over_grpc;
  grpc::ClientContext context;
  const auto reader = retrieval_->SearchAll(&context, request);
  for (pb::SearchResponse page; reader->Read(&page);) over_grpc.push_back(page);
  EXPECT_OK(reader->Finish());
  EXPECT_THAT(in_process, SizeIs(5));  // 300 rows, 70 at a time
  EXPECT_EQ(BytesOf(in_process), BytesOf(over_grpc));
}

TEST_F(NearfieldServiceTest, ScanSendsTheRepliesThatItSendsOverGrpc) {
  ServeBoth();
  const pb::ScanRequest request = FromText("collection: 'a' rows_max: 200");
  std::vector<std::string> in_process;
  {
    ScanInProcess call;
    call.Bind(service().Scan(&call, std::make_shared<const pb::ScanRequest>(request)));
    for (pb::ScanResponse reply; call.Next(&reply);)
      in_process.push_back(reply.SerializeAsString());
    EXPECT_OK(call.AwaitEnd().status);
  }
  std::vector<std::string> over_grpc;
  grpc::ClientContext context;
  const auto reader = retrieval_->Scan(&context, request);
  for (pb::ScanResponse reply; reader->Read(&reply);)
    over_grpc.push_back(reply.SerializeAsString());
  EXPECT_OK(reader->Finish());
  EXPECT_THAT(in_process, SizeIs(1));
  EXPECT_EQ(in_process, over_grpc);
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
    SearchStreamInProcess call;
    call.Bind(service().SearchStream(&call));
    pb::SearchResponse reply;
    for (const pb::SearchRequest& request : requests) {
      ASSERT_TRUE(call.Send(Decoded(request)));
      ASSERT_TRUE(call.Next(&reply));
      in_process.push_back(reply);
    }
    EXPECT_TRUE(call.Send(nullptr));
    EXPECT_FALSE(call.Next(&reply));
    EXPECT_OK(call.AwaitEnd().status);
  }
  std::vector<pb::SearchResponse> over_grpc;
  SearchStreamCall stream(*retrieval_);
  for (const pb::SearchRequest& request : requests) {
    ASSERT_TRUE(stream.Write(request));
    ASSERT_TRUE(stream.Read());
    over_grpc.push_back(stream.response);
  }
  stream.stream->WritesDone();
  EXPECT_OK(stream.stream->Finish());
  EXPECT_EQ(BytesOf(in_process), BytesOf(over_grpc));
}

TEST_F(NearfieldServiceTest, ErrorsAreThoseOverGrpc) {
  ServeBoth();
  for (const auto& request : {SearchFor("unknown", {1, 1}), SearchFor("a", {1, 1, 1})}) {
    const CallEnd end = SearchInProcess(request);
    const grpc::Status status = Search(request);
    EXPECT_EQ(static_cast<int>(end.status.code()), static_cast<int>(status.error_code()));
    EXPECT_EQ(std::string(end.status.message()), status.error_message());
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(end.retry_after_ms.has_value());
  }
  const CallEnd named =
      SearchInProcess(SearchFor("a", {1, 1}), {.caller_name = std::string(129, 'n')});
  EXPECT_THAT(named.status, FailsWith(kInvalidArgument, "nearfield-caller"));
  const CallEnd refused = SearchInProcess(
      SearchFor("a", {1, 1}), {.status = absl::ResourceExhaustedError("of the transport")});
  EXPECT_THAT(refused.status, StatusIs(kResourceExhausted, "of the transport"));
}

TEST_F(NearfieldServiceTest, SnapshotsAreListedAndDeletedAsOverGrpc) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  Set(settings_.snapshot_dir, dir / "snapshots");
  ServeBoth();
  pb::CreateSnapshotRequest create;
  for (const char* const name : {"x", "y"}) {
    create.set_name(name);
    CallInProcessOk(&NearfieldService::CreateSnapshot, create);
  }
  const auto listed = CallOk(&Admin::ListSnapshots);
  EXPECT_EQ(CallInProcessOk(&NearfieldService::ListSnapshots).SerializeAsString(),
            listed.SerializeAsString());
  ASSERT_EQ(listed.snapshots_size(), 2);
  const auto request = [](const char* name) -> pb::DeleteSnapshotRequest {
    return FromText(std::string("name: '") + name + "'");
  };
  const auto in_process = CallInProcessOk(&NearfieldService::DeleteSnapshot, request("x"));
  EXPECT_EQ(in_process.snapshot().SerializeAsString(), listed.snapshots(0).SerializeAsString());
  const auto over_grpc = CallOk(&Admin::DeleteSnapshot, request("y"));
  EXPECT_EQ(over_grpc.snapshot().SerializeAsString(), listed.snapshots(1).SerializeAsString());
  for (const char* const name : {"x", "a/b"}) {
    pb::DeleteSnapshotResponse response;
    const CallEnd end = CallInProcess(&NearfieldService::DeleteSnapshot, request(name), &response);
    const grpc::Status status = Call(&Admin::DeleteSnapshot, request(name));
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(static_cast<int>(end.status.code()), static_cast<int>(status.error_code()));
    EXPECT_EQ(std::string(end.status.message()), status.error_message());
  }
}

TEST_F(NearfieldServiceTest, CancelAndDeadlineEndACallThatWaits) {
  ServeBoth();
  pb::SearchRequest request = SearchFor("a", {1, 1});
  request.set_min_epoch(1000);
  pb::SearchResponse response;
  {
    WaitingUnary call;
    call.Bind(
        service().Search({&call, std::make_shared<const pb::SearchRequest>(request), &response}));
    call.Cancel();
    EXPECT_THAT(call.AwaitEnd().status, StatusIs(kCancelled));
  }
  const CallEnd late = SearchInProcess(
      request, {.deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(50)});
  EXPECT_THAT(late.status, StatusIs(kFailedPrecondition));
}

// Regression: a caller that sent requests and read no reply waited for ever, although its deadline
// had passed: the call still waited for its first reply to be taken.
TEST_F(NearfieldServiceTest, ADeadlineEndsAStreamWhoseRepliesNobodyReads) {
  ServeBoth();
  WaitingMessages<pb::UploadRequest, pb::UploadResponse> call(
      {.deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(50)});
  call.Bind(service().Upload(&call));
  const std::vector<pb::UploadRequest> requests = Upload("a");
  EXPECT_TRUE(call.Send(Decoded(requests[0])));
  while (call.Send(Decoded(requests[1]))) {
  }
  EXPECT_FALSE(call.AwaitEnd().status.ok());
  SearchStreamInProcess search(
      {.deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(50)});
  search.Bind(service().SearchStream(&search));
  while (search.Send(Decoded(SearchFor("a", {1, 1})))) {
  }
  EXPECT_FALSE(search.AwaitEnd().status.ok());
}

TEST_F(NearfieldServiceTest, ACallIsLoggedAndCountedWithItsRequestId) {
  ServeBoth();
  const CallEnd end = SearchInProcess(SearchFor("a", {1, 1}),
                                      {.request_id = "chosen-by-the-caller", .peer = "in-process"});
  ASSERT_OK(end.status);
  EXPECT_EQ(end.request_id, "chosen-by-the-caller");
  const auto counters = CallInProcessOk(&NearfieldService::GetCounters);
  uint64_t searches = 0;
  for (const pb::CallCounter& counter : counters.calls()) {
    if (counter.method() == "Search" && counter.status() == "OK") searches = counter.calls_count();
  }
  EXPECT_EQ(searches, 1u);
  Drain();
  bool logged = false;
  for (const nlohmann::json& line : LogLinesOf("request")) {
    if (line["request_id"] != "chosen-by-the-caller") continue;
    logged = true;
    EXPECT_EQ(line["method"], "Search");
    EXPECT_EQ(line["peer"], "in-process");
  }
  EXPECT_TRUE(logged);
}

TEST_F(NearfieldServiceTest, AServerThatDoesNotServeRefusesCallsWithAHint) {
  Listen();
  const CallEnd end = SearchInProcess(SearchFor("a", {1, 1}));
  EXPECT_THAT(end.status, StatusIs(kUnavailable));
  EXPECT_EQ(end.retry_after_ms, 1000);
  EXPECT_GT(CallInProcessOk(&NearfieldService::GetLimits).k_max(), 0u);
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

}  // namespace
}  // namespace nearfield::server
