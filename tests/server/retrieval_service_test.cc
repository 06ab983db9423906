// Retrieval over a real channel: every status code of the contract.
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

class RetrievalServiceTest : public ServerFixture {
 protected:
  void ServeRows() {
    Serve();
    ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
    ASSERT_THAT(UploadRows("c", {1, 2, 3, 4}, "payload"), HasCode(grpc::StatusCode::OK));
  }
  grpc::Status Search(const pb::SearchRequest& request, pb::SearchResponse* response = nullptr) {
    pb::SearchResponse ignored;
    grpc::ClientContext context;
    return retrieval_->Search(&context, request, response == nullptr ? &ignored : response);
  }
};

TEST_F(RetrievalServiceTest, AnswersTheThreeKindsOfQuery) {
  ServeRows();
  pb::SearchRequest request = SearchFor("c", {1, 0});
  request.set_k(2);
  request.set_with_payload(true);
  request.set_with_vectors(true);
  request.add_queries()->mutable_encoded()->set_dtype(pb::DATA_TYPE_BFLOAT16);
  request.mutable_queries(1)->mutable_encoded()->set_data(
      std::string("\x80\xbf\0\0", 4));  // (-1, 0)
  request.add_queries()->mutable_row_id()->set_number(4);
  pb::SearchResponse response;
  ASSERT_THAT(Search(request, &response), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(response.epoch(), 1u);
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_THAT(response.results(0).ids().numbers(), ElementsAre(4, 3));
  EXPECT_THAT(response.results(0).scores(), ElementsAre(4.0f, 3.0f));
  EXPECT_THAT(response.results(0).payloads(), ElementsAre("payload", "payload"));
  EXPECT_EQ(response.results(0).vectors().dtype(), pb::DATA_TYPE_FLOAT32);
  EXPECT_EQ(response.results(0).vectors().data(), Bytes({4, 1, 3, 1}));
  EXPECT_THAT(response.results(1).ids().numbers(), ElementsAre(1, 2));
  EXPECT_THAT(response.results(2).ids().numbers(), ElementsAre(3, 2));
  EXPECT_EQ(response.cost().batch_size(), 3u);
  EXPECT_EQ(response.cost().backend(), pb::BACKEND_CPU);
  EXPECT_EQ(response.cost().scan_precision(), pb::SCAN_PRECISION_ROWS);
  EXPECT_EQ(response.cost().device_us(), 7u);
  EXPECT_EQ(response.cost().rows_scanned(), 4u);
}

TEST_F(RetrievalServiceTest, TenNeighborsWhereKIsAbsentAndNothingMoreThanAskedFor) {
  ServeRows();
  std::vector<uint64_t> more;
  for (uint64_t id = 10; id < 30; ++id) more.push_back(id);
  ASSERT_THAT(UploadRows("c", more), HasCode(grpc::StatusCode::OK));
  pb::SearchResponse response;
  ASSERT_THAT(Search(SearchFor("c", {1, 0}), &response), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(response.results(0).scores_size(), 10);
  EXPECT_EQ(response.results(0).payloads_size(), 0);
  EXPECT_FALSE(response.results(0).has_vectors());
}

TEST_F(RetrievalServiceTest, AnEmptyCollectionGivesEmptyAnswers) {
  Serve();
  ASSERT_THAT(CreateCollection("empty"), HasCode(grpc::StatusCode::OK));
  pb::SearchResponse response;
  ASSERT_THAT(Search(SearchFor("empty", {1, 0}), &response), HasCode(grpc::StatusCode::OK));
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).scores_size(), 0);
}

TEST_F(RetrievalServiceTest, EveryBadRequestIsNamed) {
  Set(settings_.queries_max, "3");
  ServeRows();
  ASSERT_THAT(CreateCollection("cosine", 2, pb::METRIC_COSINE), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(CreateCollection("texts", 2, pb::METRIC_DOT, pb::ID_TYPE_STRING),
              HasCode(grpc::StatusCode::OK));
  struct Case {
    std::function<void(pb::SearchRequest&)> spoil;
    grpc::StatusCode code;
    std::string message;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {
      {[](auto& r) { r.clear_queries(); }, kInvalid, "queries: 0, must be 1 .. 3"},
      {[](auto& r) {
         for (int i = 0; i < 3; ++i) *r.add_queries() = r.queries(0);
       },
       kInvalid, "queries: 4, must be 1 .. 3"},
      {[](auto& r) { r.mutable_queries(0)->mutable_vector()->add_values(1); }, kInvalid,
       "queries[0].vector: 3 values, the collection has dim 2"},
      {[](auto& r) { r.set_k(0); }, kInvalid, "k: 0, must be 1 .. 4096"},
      {[](auto& r) { r.set_k(4097); }, kInvalid, "k: 4097, must be 1 .. 4096"},
      {[&](auto& r) { r.mutable_queries(0)->mutable_vector()->set_values(1, nan); }, kInvalid,
       "value 1 is nan"},
      {[](auto& r) { r.mutable_queries(0)->mutable_vector()->set_values(0, INFINITY); }, kInvalid,
       "value 0 is inf"},
      {[](auto& r) {
         r.set_collection("cosine");
         r.mutable_queries(0)->mutable_vector()->set_values(0, 0);
       },
       kInvalid, "no cosine"},
      {[](auto& r) { r.mutable_queries(0)->clear_kind(); }, kInvalid, "queries[0]: none of"},
      {[](auto& r) { r.mutable_queries(0)->mutable_encoded()->set_data("12345678"); }, kInvalid,
       "dtype: 0"},
      {[](auto& r) {
         r.mutable_queries(0)->mutable_encoded()->set_dtype(pb::DATA_TYPE_FLOAT32);
         r.mutable_queries(0)->mutable_encoded()->set_data("12345");
       },
       kInvalid, "5 bytes are no whole vector"},
      {[](auto& r) { r.mutable_queries(0)->mutable_row_id()->set_text("a"); }, kInvalid,
       "ids of type uint64"},
      {[](auto& r) { r.mutable_queries(0)->mutable_row_id(); }, kInvalid,
       "neither number nor text"},
      {[](auto& r) {
         r.set_collection("texts");
         r.mutable_queries(0)->mutable_row_id()->set_text(std::string(513, 'x'));
       },
       kInvalid, "513 bytes, must be 1 .. 512"},
      {[](auto& r) { r.mutable_queries(0)->mutable_row_id()->set_number(99); },
       grpc::StatusCode::NOT_FOUND, "row"},
      {[](auto& r) { r.set_collection("nope"); }, grpc::StatusCode::NOT_FOUND, "\"nope\""},
      {[](auto& r) { r.set_collection(""); }, grpc::StatusCode::NOT_FOUND, "\"\""},
      {[](auto& r) { r.mutable_filter(); }, grpc::StatusCode::UNIMPLEMENTED, "filter"},
      {[](auto& r) { r.set_min_epoch(0); }, grpc::StatusCode::UNIMPLEMENTED, "min_epoch"},
      {[](auto& r) { r.set_verify(false); }, grpc::StatusCode::UNIMPLEMENTED, "verify"},
      {[](auto& r) { r.set_score_threshold(0); }, grpc::StatusCode::UNIMPLEMENTED,
       "score_threshold"},
      {[](auto& r) { r.set_cursor(""); }, grpc::StatusCode::UNIMPLEMENTED, "cursor"},
  };
  for (const Case& each : cases) {
    pb::SearchRequest request = SearchFor("c", {0, 0});
    each.spoil(request);
    EXPECT_THAT(Search(request), HasCodeAndMessage(each.code, HasSubstr(each.message)));
  }
  EXPECT_EQ(script_->searches, 1) << "only the unknown row may reach the device";
}

TEST_F(RetrievalServiceTest, AFullQueueIsRefusedWithAHint) {
  Set(settings_.queue_requests_max, "1");
  ServeRows();
  script_->search_gate.Close();
  std::vector<std::future<grpc::Status>> accepted;
  const auto search = [&] {
    accepted.push_back(std::async(std::launch::async, [&] {
      return Search(SearchFor("c", {1, 0}));
    }));
  };
  search();
  script_->search_gate.AwaitArrivals(1);
  search();
  while (server_->state().core()->queue.waiting() < 1) std::this_thread::yield();
  grpc::ClientContext context;
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("c", {1, 0}), &response),
              HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED, HasSubstr("queue is full")));
  EXPECT_THAT(Trailer(context, "retry-after-ms"), Optional(::testing::MatchesRegex("[0-9]+")));
  script_->search_gate.Open();
  for (auto& each : accepted) EXPECT_THAT(each.get(), HasCode(grpc::StatusCode::OK));
}

TEST_F(RetrievalServiceTest, AReplyAboveTheLimitIsRefusedWithAdviceAndNoHint) {
  Set(settings_.response_bytes_max, "64KiB");
  Serve();
  ASSERT_THAT(CreateCollection("wide", 8192), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(CreateCollection("payloads"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("payloads", {1, 2}, std::string(40000, 'x')),
              HasCode(grpc::StatusCode::OK));
  grpc::ClientContext upload_context;
  const auto stream = ingest_->Upload(&upload_context);
  stream->Write(Begin("wide", 3));
  pb::UploadRequest block;
  for (uint64_t id = 0; id < 3; ++id) block.mutable_block()->mutable_ids()->add_numbers(id);
  block.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  block.mutable_block()->mutable_vectors()->set_data(std::string(3 * 8192 * 4, '\0'));
  stream->Write(block);
  stream->Write(Commit());
  stream->WritesDone();
  for (pb::UploadResponse each; stream->Read(&each);) {
  }
  ASSERT_THAT(stream->Finish(), HasCode(grpc::StatusCode::OK));

  pb::SearchRequest wide = SearchFor("wide", std::vector<float>(8192, 1.0f));
  wide.set_with_vectors(true);
  grpc::ClientContext context;
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, wide, &response),
              HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                AllOf(HasSubstr("SearchStream"), HasSubstr("65536"))));
  EXPECT_EQ(Trailer(context, "retry-after-ms"), std::nullopt);
  EXPECT_EQ(script_->searches, 0) << "known before the device works for it";
  wide.set_k(1);
  EXPECT_THAT(Search(wide), HasCode(grpc::StatusCode::OK));

  pb::SearchRequest payloads = SearchFor("payloads", {1, 0});
  payloads.set_with_payload(true);
  EXPECT_THAT(Search(payloads), HasCode(grpc::StatusCode::RESOURCE_EXHAUSTED));
  payloads.set_k(1);
  EXPECT_THAT(Search(payloads), HasCode(grpc::StatusCode::OK));

  pb::FetchRequest fetch;
  fetch.set_collection("payloads");
  fetch.mutable_ids()->add_numbers(1);
  fetch.mutable_ids()->add_numbers(2);
  pb::FetchResponse fetched;
  grpc::ClientContext fetch_context;
  EXPECT_THAT(retrieval_->Fetch(&fetch_context, fetch, &fetched),
              HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED, HasSubstr("fewer ids")));
}

TEST_F(RetrievalServiceTest, AnOversizedRequestIsRefused) {
  Set(settings_.payload_bytes_max, "1KiB");
  Set(settings_.request_bytes_max, "64KiB");
  ServeRows();
  EXPECT_THAT(Search(SearchFor("c", std::vector<float>(20000, 1.0f))),
              HasCode(grpc::StatusCode::RESOURCE_EXHAUSTED));
}

TEST_F(RetrievalServiceTest, ASearchWhoseDeadlinePassesInTheQueueNeverReachesTheDevice) {
  ServeRows();
  script_->search_gate.Close();
  auto first = std::async(std::launch::async, [&] { return Search(SearchFor("c", {1, 0})); });
  script_->search_gate.AwaitArrivals(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("c", {1, 0}), &response),
              HasCode(grpc::StatusCode::DEADLINE_EXCEEDED));
  script_->search_gate.Open();
  EXPECT_THAT(first.get(), HasCode(grpc::StatusCode::OK));
  Drain();
  EXPECT_EQ(script_->searches, 1);
}

TEST_F(RetrievalServiceTest, ASearchWithoutADeadlineGetsTheServers) {
  Set(settings_.search_ms_max, "50");
  ServeRows();
  script_->search_gate.Close();
  EXPECT_THAT(Search(SearchFor("c", {1, 0})), HasCode(grpc::StatusCode::DEADLINE_EXCEEDED));
  EXPECT_EQ(script_->cancelled_searches, 1);
}

TEST_F(RetrievalServiceTest, CancellationReachesTheEngine) {
  ServeRows();
  script_->search_gate.Close();
  grpc::ClientContext context;
  pb::SearchResponse response;
  auto search = std::async(std::launch::async, [&] {
    return retrieval_->Search(&context, SearchFor("c", {1, 0}), &response);
  });
  script_->search_gate.AwaitArrivals(1);
  context.TryCancel();
  EXPECT_THAT(search.get(), HasCode(grpc::StatusCode::CANCELLED));
  Drain();
  EXPECT_EQ(script_->cancelled_searches, 1);
}

TEST_F(RetrievalServiceTest, SearchesThatWaitTogetherShareAPassAndGetTheirOwnAnswers) {
  ServeRows();
  script_->search_gate.Close();
  auto first = std::async(std::launch::async, [&] { return Search(SearchFor("c", {1, 0})); });
  script_->search_gate.AwaitArrivals(1);
  constexpr int kWaiting = 8;
  std::vector<pb::SearchResponse> responses(kWaiting);
  std::vector<std::future<grpc::Status>> searches;
  for (int i = 0; i < kWaiting; ++i) {
    searches.push_back(std::async(std::launch::async, [&, i] {
      pb::SearchRequest request = SearchFor("c", {i % 2 == 0 ? 1.0f : -1.0f, 0});
      request.set_k(static_cast<uint32_t>(1 + i / 2));
      return Search(request, &responses[static_cast<size_t>(i)]);
    }));
  }
  while (server_->state().core()->queue.waiting() < kWaiting) std::this_thread::yield();
  script_->search_gate.Open();
  for (int i = 0; i < kWaiting; ++i) {
    ASSERT_THAT(searches[static_cast<size_t>(i)].get(), HasCode(grpc::StatusCode::OK));
    const pb::SearchResponse& response = responses[static_cast<size_t>(i)];
    EXPECT_EQ(response.cost().batch_size(), static_cast<uint32_t>(kWaiting));
    ASSERT_EQ(response.results_size(), 1);
    ASSERT_EQ(response.results(0).scores_size(), 1 + i / 2);
    EXPECT_EQ(response.results(0).ids().numbers(0), i % 2 == 0 ? 4u : 1u);
  }
  EXPECT_THAT(first.get(), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(1, kWaiting));
}

TEST_F(RetrievalServiceTest, AStreamAnswersInOrder) {
  ServeRows();
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  constexpr int kRequests = 100;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      pb::SearchRequest request = SearchFor("c", {1, 0});
      request.set_k(static_cast<uint32_t>(1 + i % 4));
      stream->Write(request);
    }
    stream->WritesDone();
  });
  pb::SearchResponse response;
  int replies = 0;
  for (; stream->Read(&response); ++replies)
    EXPECT_EQ(response.results(0).scores_size(), 1 + replies % 4);
  writer.join();
  EXPECT_EQ(replies, kRequests);
  EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::OK));
}

TEST_F(RetrievalServiceTest, AStreamEndsAtItsFirstFailureAndEarlierRepliesStand) {
  ServeRows();
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  stream->Write(SearchFor("c", {1, 0}));
  stream->Write(SearchFor("c", {1, 0, 0}));
  stream->Write(SearchFor("c", {1, 0}));  // the client need not have closed its side
  pb::SearchResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), HasCodeAndMessage(kInvalid, HasSubstr("3 values")));
  EXPECT_THAT(Trailer(context, "nearfield-request-id"), Optional(::testing::SizeIs(16)));
}

TEST_F(RetrievalServiceTest, AStreamWithoutRequestsIsFineAndACancelledOneEnds) {
  ServeRows();
  {
    grpc::ClientContext context;
    const auto stream = retrieval_->SearchStream(&context);
    stream->WritesDone();
    EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::OK));
  }
  script_->search_gate.Close();
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  stream->Write(SearchFor("c", {1, 0}));
  script_->search_gate.AwaitArrivals(1);
  context.TryCancel();
  EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::CANCELLED));
  Drain();
  EXPECT_EQ(script_->cancelled_searches, 1);
}

TEST_F(RetrievalServiceTest, FetchReturnsRowsAsStoredAndListsTheMissing) {
  ServeRows();
  pb::FetchRequest request;
  request.set_collection("c");
  for (const uint64_t id : {3, 9, 1, 3}) request.mutable_ids()->add_numbers(id);
  pb::FetchResponse response;
  {
    grpc::ClientContext context;
    ASSERT_THAT(retrieval_->Fetch(&context, request, &response), HasCode(grpc::StatusCode::OK));
  }
  EXPECT_EQ(response.epoch(), 1u);
  EXPECT_THAT(response.ids().numbers(), ElementsAre(3, 1, 3));
  EXPECT_THAT(response.missing().numbers(), ElementsAre(9));
  EXPECT_EQ(response.vectors().data(), Bytes({3, 1, 1, 1, 3, 1}));
  EXPECT_EQ(response.payloads_size(), 3);
  request.set_with_payload(false);
  request.set_with_vectors(false);
  grpc::ClientContext context;
  ASSERT_THAT(retrieval_->Fetch(&context, request, &response), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(response.payloads_size(), 0);
  EXPECT_FALSE(response.has_vectors());
}

TEST_F(RetrievalServiceTest, FetchAndCountRefuseWhatTheContractSays) {
  Set(settings_.fetch_ids_max, "2");
  ServeRows();
  const auto fetch = [&](const std::function<void(pb::FetchRequest&)>& spoil) {
    pb::FetchRequest request;
    request.set_collection("c");
    spoil(request);
    pb::FetchResponse response;
    grpc::ClientContext context;
    return retrieval_->Fetch(&context, request, &response);
  };
  EXPECT_THAT(fetch([](auto&) {}),
              HasCodeAndMessage(kInvalid, HasSubstr("ids: 0 ids, must be 1 .. 2")));
  EXPECT_THAT(fetch([](auto& r) {
                for (uint64_t i = 0; i < 3; ++i) r.mutable_ids()->add_numbers(i);
              }),
              HasCodeAndMessage(kInvalid, HasSubstr("ids: 3 ids, must be 1 .. 2")));
  EXPECT_THAT(fetch([](auto& r) { r.mutable_ids()->add_texts("a"); }), HasCode(kInvalid));
  EXPECT_THAT(fetch([](auto& r) { r.set_collection("x"); }), HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(fetch([](auto& r) { r.set_min_epoch(1); }), HasCode(grpc::StatusCode::UNIMPLEMENTED));

  const auto count = [&](const std::function<void(pb::CountRequest&)>& spoil,
                         pb::CountResponse* response) {
    pb::CountRequest request;
    request.set_collection("c");
    spoil(request);
    grpc::ClientContext context;
    return retrieval_->Count(&context, request, response);
  };
  pb::CountResponse response;
  EXPECT_THAT(count([](auto&) {}, &response), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(response.rows_count(), 4u);
  EXPECT_EQ(response.epoch(), 1u);
  EXPECT_THAT(count([](auto& r) { r.set_collection("x"); }, &response),
              HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(count([](auto& r) { r.mutable_filter(); }, &response),
              HasCode(grpc::StatusCode::UNIMPLEMENTED));
  EXPECT_THAT(count([](auto& r) { r.set_min_epoch(0); }, &response),
              HasCode(grpc::StatusCode::UNIMPLEMENTED));
}

TEST_F(RetrievalServiceTest, LimitsAreAnsweredEvenBeforeTheServerServes) {
  Listen();
  pb::GetLimitsResponse limits;
  grpc::ClientContext context;
  ASSERT_THAT(retrieval_->GetLimits(&context, pb::GetLimitsRequest(), &limits),
              HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(limits.dim_max(), 8192u);
  EXPECT_EQ(limits.k_max(), 4096u);
  EXPECT_EQ(limits.queries_max(), 1024u);
  EXPECT_EQ(limits.fetch_ids_max(), 10000u);
  EXPECT_EQ(limits.request_bytes_max(), 64u << 20);
  EXPECT_EQ(limits.response_bytes_max(), 64u << 20);
  EXPECT_EQ(limits.id_bytes_max(), 512u);
  EXPECT_EQ(limits.payload_bytes_max(), 64u << 10);
  EXPECT_EQ(limits.collection_name_bytes_max(), 63u);
  EXPECT_LT(limits.upload_block_bytes_max(), limits.request_bytes_max());
  EXPECT_EQ(limits.rows_per_collection_max(), 0xfffffffeu);
  EXPECT_EQ(limits.collections_max(), 256u);
  EXPECT_EQ(limits.queue_requests_max(), 1024u);
}

TEST_F(RetrievalServiceTest, EveryReplyAndErrorCarriesARequestIdAndOneLogLine) {
  ServeRows();
  for (const auto& [sent, collection] :
       std::vector<std::pair<std::string, std::string>>{{"mine-1", "c"}, {"mine-2", "nope\n"}}) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", sent);
    pb::SearchResponse response;
    static_cast<void>(retrieval_->Search(&context, SearchFor(collection, {1, 0}), &response).ok());
    EXPECT_THAT(Trailer(context, "nearfield-request-id"), Optional(sent));
  }
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "has a blank");
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("c", {1, 0}), &response),
              HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(Trailer(context, "nearfield-request-id"),
              Optional(::testing::MatchesRegex("[0-9a-f]+")));
  Drain();
  int found = 0;
  for (const std::string& text : LogLines()) {
    const auto line = nlohmann::json::parse(text);
    if (line["message"] != "request") continue;
    if (line["request_id"] == "mine-1") {
      ++found;
      EXPECT_EQ(line["method"], "Search");
      EXPECT_EQ(line["status"], "OK");
      EXPECT_EQ(line["queries"], 1);
      EXPECT_EQ(line["k"], 10);
      EXPECT_EQ(line["rows"], 4);
      EXPECT_EQ(line["device_us"], 7);
      EXPECT_GT(line["total_us"], 0);
      EXPECT_THAT(line["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
    }
    if (line["request_id"] == "mine-2") {
      ++found;
      EXPECT_EQ(line["status"], "NOT_FOUND");
      EXPECT_EQ(line["collection"], "nope\n");
    }
  }
  EXPECT_EQ(found, 2);
}

TEST_F(RetrievalServiceTest, ALostDeviceIsUnavailableWithAHint) {
  ServeRows();
  script_->device_lost = true;
  grpc::ClientContext context;
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("c", {1, 0}), &response),
              HasCodeAndMessage(grpc::StatusCode::UNAVAILABLE, HasSubstr("device is lost")));
  EXPECT_TRUE(Trailer(context, "retry-after-ms").has_value());
}

}  // namespace
}  // namespace nearfield::server
