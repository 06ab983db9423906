// Tests of Search over a real channel: answers, refusals, limits, queue, deadlines, cancellation
// and shared passes.
#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class SearchServiceTest : public ServerFixture {
 protected:
  std::future<grpc::Status> SearchLater() {
    return std::async(std::launch::async, [this] { return Search(SearchFor("c", {1, 0})); });
  }
};

TEST_F(SearchServiceTest, AnswersTheThreeKindsOfQuery) {
  ServeRows();
  // The encoded query is (-1, 0).
  const pb::SearchRequest request = FromText(R"(
      collection: 'c' k: 2 with_payload: true with_vectors: true
      queries { vector { values: [1, 0] } }
      queries { encoded { dtype: DATA_TYPE_BFLOAT16 data: '\200\277\000\000' } }
      queries { row_id { number: 4 } })");
  const auto response = CallOk(&Retrieval::Search, request);
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
  ASSERT_OK(UploadRows("c", more));
  const auto response = CallOk(&Retrieval::Search, SearchFor("c", {1, 0}));
  EXPECT_EQ(response.results(0).scores_size(), 10);
  EXPECT_EQ(response.results(0).payloads_size(), 0);
  EXPECT_FALSE(response.results(0).has_vectors());
}

TEST_F(SearchServiceTest, AnEmptyCollectionGivesEmptyAnswers) {
  Serve();
  ASSERT_OK(CreateCollection("empty"));
  const auto response = CallOk(&Retrieval::Search, SearchFor("empty", {1, 0}));
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).scores_size(), 0);
}

TEST_F(SearchServiceTest, EveryBadRequestIsNamed) {
  Set(settings_.queries_max, "3");
  ServeRows();
  ASSERT_OK(CreateCollection("cosine", 2, pb::METRIC_COSINE));
  ASSERT_OK(CreateCollection("texts", 2, pb::METRIC_DOT, pb::ID_TYPE_STRING));
  struct Case {
    std::string request;
    absl::StatusCode code;
    std::string message;
  };
  const auto with = [](const std::string& query) {
    return "collection: 'c' queries {" + query + "}";
  };
  const std::string vector = "queries { vector { values: [0, 0] } } ";
  const std::string good = "collection: 'c' " + vector;
  const std::string long_id(513, 'x');
  const std::vector<Case> cases = {
      {"collection: 'c'", kInvalidArgument, "queries = 0, must be 1 .. 3"},
      {good + vector + vector + vector, kInvalidArgument, "queries = 4, must be 1 .. 3"},
      {with("vector { values: [0, 0, 1] }"), kInvalidArgument,
       "queries[0].vector: 3 values, the collection has dim 2"},
      {good + "k: 0", kInvalidArgument, "k = 0, must be 1 .. 4096"},
      {good + "k: 4097", kInvalidArgument, "k = 4097, must be 1 .. 4096"},
      {with("vector { values: [0, nan] }"), kInvalidArgument, "value 1 is nan"},
      {with("vector { values: [inf, 0] }"), kInvalidArgument, "value 0 is inf"},
      {"collection: 'cosine' " + vector, kInvalidArgument, "no cosine"},
      {with(""), kInvalidArgument, "queries[0]: none of"},
      {with("encoded { data: '12345678' }"), kInvalidArgument, "dtype: 0"},
      {with("encoded { dtype: DATA_TYPE_FLOAT32 data: '12345' }"), kInvalidArgument,
       "5 bytes are no whole vector"},
      {with("row_id { text: 'a' }"), kInvalidArgument, "ids of type uint64"},
      {with("row_id {}"), kInvalidArgument, "neither number nor text"},
      {"collection: 'texts' queries { row_id { text: '" + long_id + "' } }", kInvalidArgument,
       "513 bytes, must be 1 .. 512"},
      {with("row_id { number: 99 }"), kNotFound, "row"},
      {"collection: 'nope' " + vector, kNotFound, "\"nope\""},
      {"collection: '' " + vector, kNotFound, "\"\""},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(Search(FromText(each.request)), RefusedWith(each.code, each.message));
  }
  EXPECT_EQ(script_->searches, 1) << "only the unknown row may reach the device";
}

TEST_F(SearchServiceTest, EveryBadPartBesideTheQueriesIsNamed) {
  ServeRows();
  const auto search = [&](const std::string& fields) {
    return Search(FromText("collection: 'c' queries { vector { values: [0, 0] } } " + fields));
  };
  EXPECT_THAT(search("score_threshold: nan"),
              RefusedWith(kInvalidArgument, "score_threshold: is not a number"));
  EXPECT_THAT(search("filter_text: 'exists(x)'"),
              RefusedWith(kInvalidArgument, "filter_text: column 8: the collection declares no"));
  EXPECT_THAT(search("cursor: ''"), RefusedWith(kInvalidArgument, "cursor: 0 bytes"));
  pb::SearchRequest other = SearchFor("c", {0, 0});
  other.set_cursor(std::string(25, '\1'));
  EXPECT_THAT(Search(other), RefusedWith(kInvalidArgument, "cursor: of another search"));
  EXPECT_THAT(search("cursor: 'x' queries { vector { values: [0, 0] } }"),
              RefusedWith(kInvalidArgument, "queries: 2, must be 1 with a cursor"));
  EXPECT_EQ(script_->searches, 0);
}

TEST_F(SearchServiceTest, AFullQueueIsRefusedWithAHint) {
  Set(settings_.queue_requests_max, "1");
  ServeRows();
  script_->search_gate.Close();
  auto first = SearchLater();
  script_->search_gate.AwaitArrivals(1);
  auto second = SearchLater();
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->queue.waiting() >= 1; }));
  grpc::ClientContext context;
  EXPECT_THAT(Search(SearchFor("c", {1, 0}), nullptr, &context),
              RefusedWith(kResourceExhausted, "queue is full"));
  EXPECT_THAT(Trailer(context, "grpc-retry-pushback-ms"), Optional(MatchesRegex("[0-9]+")));
  script_->search_gate.Open();
  EXPECT_OK(first.get());
  EXPECT_OK(second.get());
}

TEST_F(SearchServiceTest, AReplyAboveTheLimitIsRefusedWithAdviceAndNoHint) {
  Set(settings_.response_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "32KiB");
  Serve();
  ASSERT_OK(CreateCollection("wide", 8192));
  ASSERT_OK(CreateCollection("payloads"));
  ASSERT_OK(UploadRows("payloads", {1, 2, 3}, std::string(30000, 'x')));
  pb::UploadRequest block;
  for (uint64_t id = 0; id < 3; ++id) block.mutable_block()->mutable_ids()->add_numbers(id);
  block.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  block.mutable_block()->mutable_vectors()->set_data(std::string(3 * 8192 * 4, '\0'));
  ASSERT_OK(Send({Begin("wide", 3), block, Commit()}));

  pb::SearchRequest wide = SearchFor("wide", std::vector<float>(8192, 1.0f));
  wide.set_with_vectors(true);
  grpc::ClientContext context;
  EXPECT_THAT(Search(wide, nullptr, &context),
              RefusedWith(kResourceExhausted, "SearchStream", "65536"));
  EXPECT_EQ(Trailer(context, "grpc-retry-pushback-ms"), std::nullopt);
  EXPECT_EQ(script_->searches, 0) << "known before the device works for it";
  wide.set_k(1);
  EXPECT_OK(Search(wide));

  pb::SearchRequest payloads = SearchFor("payloads", {1, 0});
  payloads.set_with_payload(true);
  EXPECT_THAT(Search(payloads), RefusedWith(kResourceExhausted, "90000 bytes", "SearchStream"))
      << "refused by the engine, before it copies";
  payloads.set_k(1);
  EXPECT_OK(Search(payloads));

  EXPECT_THAT(
      Call(&Retrieval::Fetch, FromText("collection: 'payloads' ids { numbers: [1, 2, 3] }")),
      RefusedWith(kResourceExhausted, "90024 bytes", "fewer ids"));
}

TEST_F(SearchServiceTest, AnOversizedRequestIsRefused) {
  Set(settings_.payload_bytes_max, "1KiB");
  Set(settings_.request_bytes_max, "64KiB");
  ServeRows();
  EXPECT_THAT(Search(SearchFor("c", std::vector<float>(20000, 1.0f))), HasCode(kResourceExhausted));
}

TEST_F(SearchServiceTest, ASearchWhoseDeadlinePassesInTheQueueNeverReachesTheDevice) {
  Set(settings_.queue_requests_max, "1");
  ServeRows();
  script_->search_gate.Close();
  auto first = SearchLater();
  script_->search_gate.AwaitArrivals(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1000));
  EXPECT_THAT(Search(SearchFor("c", {1, 0}), nullptr, &context), HasCode(kDeadlineExceeded));
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
  EXPECT_TRUE(Eventually([&] { return ended(); }));
  script_->search_gate.Open();
  EXPECT_OK(first.get());
  EXPECT_OK(third.get());
  Drain();
  EXPECT_EQ(script_->searches, 2) << "the first and the third";
}

TEST_F(SearchServiceTest, ASearchWithoutADeadlineGetsTheServers) {
  Set(settings_.search_ms_max, "1000");
  ServeRows();
  script_->search_gate.Close();
  EXPECT_THAT(Search(SearchFor("c", {1, 0})), HasCode(kDeadlineExceeded));
  EXPECT_EQ(script_->cancelled_searches, 1);
}

TEST_F(SearchServiceTest, CancellationReachesTheEngine) {
  ServeRows();
  script_->search_gate.Close();
  grpc::ClientContext context;
  auto search = std::async(std::launch::async, [&] {
    return Search(SearchFor("c", {1, 0}), nullptr, &context);
  });
  script_->search_gate.AwaitArrivals(1);
  context.TryCancel();
  EXPECT_THAT(search.get(), HasCode(kCancelled));
  Drain();
  EXPECT_EQ(script_->cancelled_searches, 1);
}

// Returns the ids and score bits of a reply, packed or not: one text for each query.
std::vector<std::string> HitsOf(const pb::SearchResponse& response) {
  std::vector<std::string> hits;
  for (const pb::QueryResult& result : response.results()) {
    hits.emplace_back();
    for (const uint64_t id : result.ids().numbers()) absl::StrAppend(&hits.back(), id, " ");
    for (const float score : result.scores()) {
      absl::StrAppend(&hits.back(), std::bit_cast<uint32_t>(score), " ");
    }
  }
  const char* ids = response.packed().ids().data();
  const char* scores = response.packed().scores().data();
  const std::string& counts = response.packed().counts();
  for (size_t at = 0; at < counts.size(); at += sizeof(uint32_t)) {
    uint32_t count = 0;
    std::memcpy(&count, counts.data() + at, sizeof(count));
    hits.emplace_back();
    for (uint32_t i = 0; i < count; ++i, ids += sizeof(uint64_t)) {
      uint64_t id = 0;
      std::memcpy(&id, ids, sizeof(id));
      absl::StrAppend(&hits.back(), id, " ");
    }
    for (uint32_t i = 0; i < count; ++i, scores += sizeof(uint32_t)) {
      uint32_t bits = 0;
      std::memcpy(&bits, scores, sizeof(bits));
      absl::StrAppend(&hits.back(), bits, " ");
    }
  }
  return hits;
}

TEST_F(SearchServiceTest, APackedReplyHasTheBitsOfAnOrdinaryOne) {
  ServeRows();
  ASSERT_OK(CreateCollection("t", 2, pb::METRIC_DOT, pb::ID_TYPE_STRING));
  pb::SearchRequest request = SearchFor("c", {1, 0});
  *request.add_queries() = SearchFor("c", {-1, 0.5f}).queries(0);
  request.add_queries()->mutable_row_id()->set_number(2);
  const FromText effective[] = {FromText(""), FromText("k: 2"), FromText("score_threshold: 2.5"),
                                FromText("score_threshold: 100"),
                                FromText("priority: SEARCH_PRIORITY_BATCH")};
  for (const FromText& options : effective) {
    pb::SearchRequest ordinary = request;
    ordinary.MergeFrom(pb::SearchRequest(options));
    pb::SearchRequest packed = ordinary;
    packed.set_packed(true);
    pb::SearchResponse responses[2];
    ASSERT_OK(Search(ordinary, &responses[0]));
    ASSERT_OK(Search(packed, &responses[1]));
    EXPECT_FALSE(responses[0].has_packed());
    EXPECT_EQ(responses[1].results_size(), 0);
    EXPECT_EQ(HitsOf(responses[1]), HitsOf(responses[0])) << ordinary.ShortDebugString();
    EXPECT_EQ(HitsOf(responses[0]).size(), 3u);
    EXPECT_EQ(responses[1].epoch(), responses[0].epoch());
    EXPECT_EQ(responses[1].incarnation(), responses[0].incarnation());
    EXPECT_EQ(responses[1].cost().rows_scanned(), responses[0].cost().rows_scanned());
    SearchStreamCall stream(*retrieval_, {packed});
    ASSERT_TRUE(stream.Read());
    EXPECT_EQ(HitsOf(stream.response), HitsOf(responses[0]));
  }
  const FromText without_effect[] = {
      FromText("with_payload: true"), FromText("with_vectors: true"),
      FromText("attributes: '*'"),    FromText("filter_text: 'id == 1'"),
      FromText("with_digest: true"),  FromText("collection: 't'")};
  for (const FromText& options : without_effect) {
    pb::SearchRequest packed = SearchFor("c", {1, 0});
    packed.set_packed(true);
    packed.MergeFrom(pb::SearchRequest(options));
    pb::SearchResponse response;
    ASSERT_OK(Search(packed, &response)) << packed.ShortDebugString();
    EXPECT_FALSE(response.has_packed()) << packed.ShortDebugString();
    EXPECT_EQ(response.results_size(), 1);
  }
  pb::SearchAllRequest all;
  *all.mutable_search() = SearchFor("c", {1, 0});
  all.mutable_search()->set_packed(true);
  grpc::ClientContext context;
  const auto pages = retrieval_->SearchAll(&context, all);
  pb::SearchResponse page;
  ASSERT_TRUE(pages->Read(&page));
  EXPECT_FALSE(page.has_packed());
  EXPECT_EQ(page.results(0).scores_size(), 4);
}

TEST_F(SearchServiceTest, SearchesThatWaitTogetherShareAPassAndGetTheirOwnAnswers) {
  ServeRows();
  script_->search_gate.Close();
  auto first = SearchLater();
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
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->queue.waiting() >= kWaiting; }));
  script_->search_gate.Open();
  for (int i = 0; i < kWaiting; ++i) {
    ASSERT_OK(searches[static_cast<size_t>(i)].get());
    const pb::SearchResponse& response = responses[static_cast<size_t>(i)];
    EXPECT_EQ(response.cost().batch_size(), static_cast<uint32_t>(kWaiting));
    ASSERT_EQ(response.results_size(), 1);
    ASSERT_EQ(response.results(0).scores_size(), 1 + i / 2);
    EXPECT_EQ(response.results(0).ids().numbers(0), i % 2 == 0 ? 4u : 1u);
  }
  EXPECT_OK(first.get());
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(1, kWaiting));
}

}  // namespace
}  // namespace nearfield::server
