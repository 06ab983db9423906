// Tests of Search over a real channel: every status code of the contract.
#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

class SearchServiceTest : public ServerFixture {};

TEST_F(SearchServiceTest, AnswersTheThreeKindsOfQuery) {
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

TEST_F(SearchServiceTest, TenNeighborsWhereKIsAbsentAndNothingMoreThanAskedFor) {
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

TEST_F(SearchServiceTest, AnEmptyCollectionGivesEmptyAnswers) {
  Serve();
  ASSERT_THAT(CreateCollection("empty"), HasCode(grpc::StatusCode::OK));
  pb::SearchResponse response;
  ASSERT_THAT(Search(SearchFor("empty", {1, 0}), &response), HasCode(grpc::StatusCode::OK));
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).scores_size(), 0);
}

TEST_F(SearchServiceTest, EveryBadRequestIsNamed) {
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
      {[](auto& r) { r.clear_queries(); }, kInvalid, "queries = 0, must be 1 .. 3"},
      {[](auto& r) {
         for (int i = 0; i < 3; ++i) *r.add_queries() = r.queries(0);
       },
       kInvalid, "queries = 4, must be 1 .. 3"},
      {[](auto& r) { r.mutable_queries(0)->mutable_vector()->add_values(1); }, kInvalid,
       "queries[0].vector: 3 values, the collection has dim 2"},
      {[](auto& r) { r.set_k(0); }, kInvalid, "k = 0, must be 1 .. 4096"},
      {[](auto& r) { r.set_k(4097); }, kInvalid, "k = 4097, must be 1 .. 4096"},
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
  };
  for (const Case& each : cases) {
    pb::SearchRequest request = SearchFor("c", {0, 0});
    each.spoil(request);
    EXPECT_THAT(Search(request), HasCodeAndMessage(each.code, HasSubstr(each.message)));
  }
  EXPECT_EQ(script_->searches, 1) << "only the unknown row may reach the device";
}

TEST_F(SearchServiceTest, EveryBadPartBesideTheQueriesIsNamed) {
  ServeRows();
  const auto expect = [&](const std::string& message, grpc::StatusCode code,
                          const std::function<void(pb::SearchRequest&)>& spoil) {
    pb::SearchRequest request = SearchFor("c", {0, 0});
    spoil(request);
    EXPECT_THAT(Search(request), HasCodeAndMessage(code, HasSubstr(message)));
  };
  expect("score_threshold: is not a number", kInvalid,
         [](auto& r) { r.set_score_threshold(std::numeric_limits<float>::quiet_NaN()); });
  expect("filter: no condition is set", kInvalid, [](auto& r) { r.mutable_filter(); });
  expect("filter.exists.attribute", kInvalid,
         [](auto& r) { r.mutable_filter()->mutable_exists()->set_attribute("x"); });
  expect("cursor: 0 bytes", kInvalid, [](auto& r) { r.set_cursor(""); });
  expect("cursor: of another search", kInvalid,
         [](auto& r) { r.set_cursor(std::string(25, '\1')); });
  expect("queries: 2, must be 1 with a cursor", kInvalid, [](auto& r) {
    r.set_cursor("x");
    *r.add_queries() = r.queries(0);
  });
  EXPECT_EQ(script_->searches, 0);
}

TEST_F(SearchServiceTest, AFullQueueIsRefusedWithAHint) {
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

TEST_F(SearchServiceTest, AReplyAboveTheLimitIsRefusedWithAdviceAndNoHint) {
  Set(settings_.response_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "32KiB");
  Serve();
  ASSERT_THAT(CreateCollection("wide", 8192), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(CreateCollection("payloads"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("payloads", {1, 2, 3}, std::string(30000, 'x')),
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
  EXPECT_THAT(Search(payloads),
              HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                AllOf(HasSubstr("90000 bytes"), HasSubstr("SearchStream"))))
      << "refused by the engine, before it copies";
  payloads.set_k(1);
  EXPECT_THAT(Search(payloads), HasCode(grpc::StatusCode::OK));

  pb::FetchRequest fetch;
  fetch.set_collection("payloads");
  fetch.mutable_ids()->add_numbers(1);
  fetch.mutable_ids()->add_numbers(2);
  fetch.mutable_ids()->add_numbers(3);
  pb::FetchResponse fetched;
  grpc::ClientContext fetch_context;
  EXPECT_THAT(retrieval_->Fetch(&fetch_context, fetch, &fetched),
              HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                AllOf(HasSubstr("90024 bytes"), HasSubstr("fewer ids"))));
}

TEST_F(SearchServiceTest, AnOversizedRequestIsRefused) {
  Set(settings_.payload_bytes_max, "1KiB");
  Set(settings_.request_bytes_max, "64KiB");
  ServeRows();
  EXPECT_THAT(Search(SearchFor("c", std::vector<float>(20000, 1.0f))),
              HasCode(grpc::StatusCode::RESOURCE_EXHAUSTED));
}

TEST_F(SearchServiceTest, ASearchWhoseDeadlinePassesInTheQueueNeverReachesTheDevice) {
  Set(settings_.queue_requests_max, "1");
  ServeRows();
  script_->search_gate.Close();
  auto first = std::async(std::launch::async, [&] { return Search(SearchFor("c", {1, 0})); });
  script_->search_gate.AwaitArrivals(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1000));
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("c", {1, 0}), &response),
              HasCode(grpc::StatusCode::DEADLINE_EXCEEDED));
  // The server measures the deadline from the arrival of the call, slightly later than the client.
  // The client may report the expiry first. Until the server has also dropped the second search, a
  // third one finds the queue full.
  auto third = std::async(std::launch::async, [&] {
    grpc::Status status;
    do {
      status = Search(SearchFor("c", {1, 0}));
    } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    return status;
  });
  const auto ended = [&] {
    const std::vector<std::string> lines = LogLines();
    return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("DEADLINE_EXCEEDED") != std::string::npos ||
             line.find("CANCELLED") != std::string::npos;
    });
  };
  while (!ended()) std::this_thread::yield();
  script_->search_gate.Open();
  EXPECT_THAT(first.get(), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(third.get(), HasCode(grpc::StatusCode::OK));
  Drain();
  EXPECT_EQ(script_->searches, 2) << "the first and the third";
}

TEST_F(SearchServiceTest, ASearchWithoutADeadlineGetsTheServers) {
  Set(settings_.search_ms_max, "1000");
  ServeRows();
  script_->search_gate.Close();
  EXPECT_THAT(Search(SearchFor("c", {1, 0})), HasCode(grpc::StatusCode::DEADLINE_EXCEEDED));
  EXPECT_EQ(script_->cancelled_searches, 1);
}

TEST_F(SearchServiceTest, CancellationReachesTheEngine) {
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

TEST_F(SearchServiceTest, SearchesThatWaitTogetherShareAPassAndGetTheirOwnAnswers) {
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

}  // namespace
}  // namespace nearfield::server
