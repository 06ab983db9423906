// Tests of filters that are not in the cache: a few separate threads evaluate them, and they delay
// no other call.
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Optional;

constexpr auto kOk = grpc::StatusCode::OK;

class FilterServiceTest : public ServerFixture {
 protected:
  // Sets a filter that no other call uses.
  static void SetFilter(uint64_t id, pb::Filter* filter) {
    filter->mutable_has_id()->add_numbers(id);
  }
  static pb::SearchRequest Filtered(uint64_t id) {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    SetFilter(id, request.mutable_filter());
    return request;
  }
  // Longer than any answer takes on a busy machine. A call that waits for the gate ends at this
  // deadline.
  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }
  grpc::Status SearchSoon(const pb::SearchRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    pb::SearchResponse response;
    return retrieval_->Search(&context, request, &response);
  }
  grpc::Status CheckHealth() {
    grpc::ClientContext context;
    SetDeadline(&context);
    grpc::health::v1::HealthCheckResponse response;
    return health_->Check(&context, {}, &response);
  }
  void Later(const std::function<grpc::Status()>& call) {
    calls_.push_back(std::async(std::launch::async, call));
  }
  static pb::CountRequest CountOf(uint64_t id) {
    pb::CountRequest request;
    request.set_collection("c");
    SetFilter(id, request.mutable_filter());
    return request;
  }
  void LaterCount(uint64_t id) {
    Later([this, id] {
      grpc::ClientContext context;
      pb::CountResponse response;
      return retrieval_->Count(&context, CountOf(id), &response);
    });
  }
  void LaterDelete(uint64_t id) {
    Later([this, id] {
      pb::DeleteRequest request;
      request.set_collection("c");
      SetFilter(id, request.mutable_filter());
      grpc::ClientContext context;
      pb::DeleteResponse response;
      return ingest_->Delete(&context, request, &response);
    });
  }
  void LaterVerify(uint64_t id) {
    Later([this, id] {
      pb::VerifyRequest request;
      request.set_collection("d");  // "d" does not change meanwhile
      *request.mutable_query() = SearchFor("c", {1, 0}).queries(0);
      SetFilter(id, request.mutable_filter());
      grpc::ClientContext context;
      pb::VerifyResponse response;
      return admin_->Verify(&context, request, &response);
    });
  }
  void LaterSearchAll(uint64_t id) {
    Later([this, id] {
      pb::SearchAllRequest request;
      *request.mutable_search() = Filtered(id);
      grpc::ClientContext context;
      const auto stream = retrieval_->SearchAll(&context, request);
      for (pb::SearchResponse each; stream->Read(&each);) {
      }
      return stream->Finish();
    });
  }
  void AwaitAll() {
    for (auto& call : calls_) EXPECT_THAT(call.get(), HasCode(kOk));
    calls_.clear();
  }
  FilterCache::Stats CacheStats() {
    return server_->state().core()->catalog.attributes().cache.stats();
  }

  std::vector<std::future<grpc::Status>> calls_;
};

// Regression: filters were evaluated on gRPC's own threads. As many slow filters as threads stopped
// every call, including Health.Check. A slow filter of a call with min_epoch stopped all calls that
// waited for an epoch.
TEST_F(FilterServiceTest, SlowFiltersHoldUpNoCallWithoutOne) {
  Set(settings_.filter_threads, "2");
  ServeRows();
  ASSERT_THAT(CreateCollection("d"), HasCode(kOk));
  ASSERT_THAT(UploadRows("d", {1}), HasCode(kOk));
  pb::SearchResponse before;
  ASSERT_THAT(Search(SearchFor("c", {1, 0}), &before), HasCode(kOk));
  script_->filter_gate.Close();
  pb::SearchRequest behind_epoch = Filtered(90);
  behind_epoch.set_min_epoch(before.epoch() + 1);
  Later([=, this] { return Search(behind_epoch); });
  while (server_->state().core()->epoch_waiters.waiting() < 1) std::this_thread::yield();
  ASSERT_THAT(UploadRows("c", {5}), HasCode(kOk));
  const auto threads_count = static_cast<uint64_t>(std::thread::hardware_concurrency());
  for (uint64_t i = 0; i < threads_count + 1; ++i) {
    Later([=, this] { return Search(Filtered(100 + i)); });
    LaterCount(200 + i);
    LaterDelete(300 + i);
    LaterSearchAll(400 + i);
  }
  LaterVerify(500);
  script_->filter_gate.AwaitArrivals(3);  // the two filter threads and the verification's thread
  EXPECT_THAT(CheckHealth(), HasCode(kOk));
  EXPECT_THAT(SearchSoon(SearchFor("c", {1, 0})), HasCode(kOk));
  pb::SearchRequest next_epoch = SearchFor("c", {1, 0});
  next_epoch.set_min_epoch(before.epoch() + 2);
  auto next = std::async(std::launch::async, [&] { return SearchSoon(next_epoch); });
  while (server_->state().core()->epoch_waiters.waiting() < 1) std::this_thread::yield();
  EXPECT_THAT(UploadRows("c", {6}), HasCode(kOk));
  EXPECT_THAT(next.get(), HasCode(kOk));
  script_->filter_gate.Open();
  AwaitAll();
}

TEST_F(FilterServiceTest, AFilterInTheCacheNeedsNoThread) {
  Set(settings_.filter_threads, "1");
  ServeRows();
  ASSERT_THAT(SearchSoon(Filtered(1)), HasCode(kOk));
  script_->filter_gate.Close();
  Later([this] { return Search(Filtered(2)); });
  script_->filter_gate.AwaitArrivals(1);
  EXPECT_THAT(SearchSoon(Filtered(1)), HasCode(kOk));
  script_->filter_gate.Open();
  AwaitAll();
}

TEST_F(FilterServiceTest, MoreFiltersThanMayWaitAreRefusedWithAHint) {
  Set(settings_.filter_threads, "1");
  Set(settings_.queue_requests_max, "1");
  ServeRows();
  script_->filter_gate.Close();
  LaterCount(1);
  script_->filter_gate.AwaitArrivals(1);
  // One of the two finds a place; it is not known which.
  std::vector<std::optional<std::string>> hints(2);
  std::vector<std::future<grpc::Status>> both;
  for (size_t i = 0; i < 2; ++i) {
    both.push_back(std::async(std::launch::async, [&, i] {
      grpc::ClientContext context;
      pb::CountResponse response;
      const grpc::Status status = retrieval_->Count(&context, CountOf(2 + i), &response);
      hints[i] = Trailer(context, "retry-after-ms");
      if (!status.ok()) script_->filter_gate.Open();
      return status;
    }));
  }
  const grpc::Status first = both[0].get();
  const grpc::Status second = both[1].get();
  const bool first_refused = !first.ok();
  EXPECT_THAT(first_refused ? second : first, HasCode(kOk));
  EXPECT_THAT(first_refused ? first : second,
              HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                HasSubstr("too many filters that are not in the cache")));
  EXPECT_THAT(hints[first_refused ? 0 : 1], Optional(MatchesRegex("[0-9]+")));
  AwaitAll();
}

// Regression: an evaluation did not check for cancellation. A filter was evaluated to the end and
// cached for a caller that had left.
TEST_F(FilterServiceTest, AFilterIsNotEvaluatedToTheEndForACallerThatLeft) {
  Set(settings_.filter_threads, "1");
  ServeRows();
  script_->filter_gate.Close();
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  stream->Write(Filtered(1));
  script_->filter_gate.AwaitArrivals(1);
  context.TryCancel();
  const auto cancelled = [&] {
    const auto counts = server_->state().call_counter().counts();
    const auto it = counts.find({"SearchStream", "CANCELLED"});
    return it != counts.end() && it->second.calls == 1;
  };
  while (!cancelled()) std::this_thread::yield();
  script_->filter_gate.Open();
  EXPECT_FALSE(stream->Finish().ok());
  ASSERT_TRUE(server_->state().WaitIdle(std::chrono::seconds(20)));
  EXPECT_EQ(CacheStats().entries_count, 0) << "the evaluation went on to its end";
  EXPECT_EQ(script_->searches, 0);
}

}  // namespace
}  // namespace nearfield::server
