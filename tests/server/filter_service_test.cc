// Tests of filters that are not in the cache: a few separate threads evaluate them, and they delay
// no other call.
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class FilterServiceTest : public ServerFixture {
 protected:
  // Returns the text of a request of the collection "c" with a filter that no other call uses.
  static std::string Filter(uint64_t id) {
    return absl::StrCat("collection: 'c' filter_text: 'id == ", id, "' ");
  }
  static std::string SearchText(uint64_t id) {
    return Filter(id) + "queries { vector { values: [1, 0] } }";
  }
  static pb::SearchRequest Filtered(uint64_t id) { return FromText(SearchText(id)); }
  // Calls with a deadline that is longer than any answer takes on a busy machine. A call that waits
  // for the gate ends at this deadline.
  template <typename Method, typename Request>
  grpc::Status CallSoon(Method method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return Call(method, request, nullptr, &context);
  }
  void Later(const std::function<grpc::Status()>& call) {
    calls_.push_back(std::async(std::launch::async, call));
  }
  template <typename Method>
  void LaterCall(Method method, const std::string& request) {
    Later([=, this] { return Call(method, FromText(request)); });
  }
  void LaterSearchAll(uint64_t id) {
    Later([this, id] {
      grpc::ClientContext context;
      const auto stream = retrieval_->SearchAll(
          &context, FromText(absl::StrCat("search { ", SearchText(id), " }")));
      for (pb::SearchResponse each; stream->Read(&each);) {
      }
      return stream->Finish();
    });
  }
  void AwaitAll() {
    for (auto& call : calls_) EXPECT_OK(call.get());
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
  ASSERT_OK(CreateCollection("d"));
  ASSERT_OK(UploadRows("d", {1}));
  const auto before = CallOk(&Retrieval::Search, SearchFor("c", {1, 0}));
  script_->filter_gate.Close();
  pb::SearchRequest behind_epoch = Filtered(90);
  behind_epoch.set_min_epoch(before.epoch() + 1);
  Later([=, this] { return Search(behind_epoch); });
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() >= 1; }));
  ASSERT_OK(UploadRows("c", {5}));
  const auto threads_count = static_cast<uint64_t>(std::thread::hardware_concurrency());
  for (uint64_t i = 0; i < threads_count + 1; ++i) {
    Later([=, this] { return Search(Filtered(100 + i)); });
    LaterCall(&Retrieval::Count, Filter(200 + i));
    LaterCall(&Ingest::Delete, Filter(300 + i));
    LaterSearchAll(400 + i);
  }
  // "d" does not change meanwhile.
  LaterCall(&Admin::Verify, Filter(500) + "collection: 'd' query { vector { values: [1, 0] } }");
  script_->filter_gate.AwaitArrivals(3);  // the two filter threads and the verification's thread
  EXPECT_OK(CallSoon(&Health::Check, FromText("")));
  EXPECT_OK(CallSoon(&Retrieval::Search, SearchFor("c", {1, 0})));
  pb::SearchRequest next_epoch = SearchFor("c", {1, 0});
  next_epoch.set_min_epoch(before.epoch() + 2);
  auto next =
      std::async(std::launch::async, [&] { return CallSoon(&Retrieval::Search, next_epoch); });
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() >= 1; }));
  EXPECT_OK(UploadRows("c", {6}));
  EXPECT_OK(next.get());
  script_->filter_gate.Open();
  AwaitAll();
}

TEST_F(FilterServiceTest, AFilterInTheCacheNeedsNoThread) {
  Set(settings_.filter_threads, "1");
  ServeRows();
  ASSERT_OK(CallSoon(&Retrieval::Search, Filtered(1)));
  script_->filter_gate.Close();
  Later([this] { return Search(Filtered(2)); });
  script_->filter_gate.AwaitArrivals(1);
  EXPECT_OK(CallSoon(&Retrieval::Search, Filtered(1)));
  script_->filter_gate.Open();
  AwaitAll();
}

TEST_F(FilterServiceTest, MoreFiltersThanMayWaitAreRefusedWithAHint) {
  Set(settings_.filter_threads, "1");
  Set(settings_.queue_requests_max, "1");
  ServeRows();
  script_->filter_gate.Close();
  LaterCall(&Retrieval::Count, Filter(1));
  script_->filter_gate.AwaitArrivals(1);
  // One of the two finds a place; it is not known which.
  std::vector<std::optional<std::string>> hints(2);
  std::vector<std::future<grpc::Status>> both;
  for (size_t i = 0; i < 2; ++i) {
    both.push_back(std::async(std::launch::async, [&, i] {
      grpc::ClientContext context;
      const grpc::Status status =
          Call(&Retrieval::Count, FromText(Filter(2 + i)), nullptr, &context);
      hints[i] = Trailer(context, "grpc-retry-pushback-ms");
      if (!status.ok()) script_->filter_gate.Open();
      return status;
    }));
  }
  const grpc::Status first = both[0].get();
  const grpc::Status second = both[1].get();
  const bool first_refused = !first.ok();
  EXPECT_OK(first_refused ? second : first);
  EXPECT_THAT(first_refused ? first : second,
              RefusedWith(kResourceExhausted, "too many filters that are not in the cache"));
  EXPECT_THAT(hints[first_refused ? 0 : 1], Optional(MatchesRegex("[0-9]+")));
  AwaitAll();
}

// Regression: an evaluation did not check for cancellation. A filter was evaluated to the end and
// cached for a caller that had left.
TEST_F(FilterServiceTest, AFilterIsNotEvaluatedToTheEndForACallerThatLeft) {
  Set(settings_.filter_threads, "1");
  ServeRows();
  script_->filter_gate.Close();
  SearchStreamCall stream(*retrieval_, {Filtered(1)});
  script_->filter_gate.AwaitArrivals(1);
  stream.context.TryCancel();
  const auto cancelled = [&] {
    const auto counts = server_->state().call_counter().counts();
    const auto it = counts.find({"SearchStream", "CANCELLED"});
    return it != counts.end() && it->second.total_us.count() == 1;
  };
  EXPECT_TRUE(Eventually([&] { return cancelled(); }));
  script_->filter_gate.Open();
  EXPECT_FALSE(stream.Finish().ok());
  ASSERT_TRUE(server_->state().WaitIdle(std::chrono::seconds(20)));
  EXPECT_EQ(CacheStats().entries_count, 0) << "the evaluation went on to its end";
  EXPECT_EQ(script_->searches, 0);
}

}  // namespace
}  // namespace nearfield::server
