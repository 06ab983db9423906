// Tests of the queue as clients see it: priorities, callers, refusals by prediction, unread
// replies.
#include <future>
#include <thread>

#include "server/rpc/caller_name.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class QueueServiceTest : public ServerFixture {
 protected:
  ByteAccount& replies() { return server_->state().ledger().replies; }
  ByteAccount& requests() { return server_->state().ledger().requests; }
  void AwaitWaiting(int64_t count) {
    EXPECT_TRUE(Eventually([&] { return server_->state().core()->queue.waiting() >= count; }));
  }
  static void AwaitNothingHeld(const ByteAccount& account) {
    EXPECT_TRUE(Eventually([&] { return account.bytes() == 0; }));
  }
  // Starts a search in the background. Returns when the device works on it.
  std::future<grpc::Status> HoldSearch(const std::string& caller = "") {
    script_->search_gate.Close();
    auto status = Later(SearchFor("c", {1, 0}), 0, caller);
    script_->search_gate.AwaitArrivals(1);
    return status;
  }
  // Starts a search in the background. Returns when `waiting` searches wait in total.
  std::future<grpc::Status> Later(pb::SearchRequest request, int64_t waiting,
                                  const std::string& caller = "") {
    std::future<grpc::Status> status =
        std::async(std::launch::async, [=, this] { return SearchAs(caller, request); });
    AwaitWaiting(waiting);
    return status;
  }
  // Uploads a collection "c" with one row of 32 KiB.
  void UploadWideRow() {
    ASSERT_OK(CreateCollection("c", 8192));
    pb::UploadRequest block;
    block.mutable_block()->mutable_ids()->add_numbers(1);
    block.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block.mutable_block()->mutable_vectors()->set_data(std::string(8192 * 4, '\0'));
    ASSERT_OK(Send({Begin("c", 1), block, Commit()}));
  }
  static pb::SearchRequest Wide() {
    pb::SearchRequest wide = SearchFor("c", std::vector<float>(8192, 1.0f));
    wide.set_with_vectors(true);
    return wide;
  }
  // Use fixed receive windows: windows that grow with the link would accept every reply.
  std::unique_ptr<pb::Retrieval::Stub> StubWithFixedWindows() {
    grpc::ChannelArguments fixed_windows;
    fixed_windows.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return pb::Retrieval::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), fixed_windows));
  }
  grpc::Status FetchAs(const std::string& caller, const std::vector<uint64_t>& ids,
                       std::optional<std::string>* hint = nullptr) {
    grpc::ClientContext context;
    context.AddMetadata("nearfield-caller", caller);
    pb::FetchRequest request;
    request.set_collection("c");
    request.mutable_ids()->mutable_numbers()->Add(ids.begin(), ids.end());
    const grpc::Status status = Call(&Retrieval::Fetch, request, nullptr, &context);
    if (hint != nullptr) *hint = Trailer(context, "grpc-retry-pushback-ms");
    return status;
  }
  // Returns a search with `queries` queries.
  static pb::SearchRequest Many(int queries, pb::SearchPriority priority) {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    for (int i = 1; i < queries; ++i) *request.add_queries() = request.queries(0);
    request.set_priority(priority);
    return request;
  }
};

TEST_F(QueueServiceTest, ABatchSearchLetsAnInteractiveOneGoFirst) {
  Set(settings_.batch_max, "4");
  Set(settings_.queries_max, "4");
  ServeRows();
  auto first = HoldSearch();
  auto batch = Later(Many(2, pb::SEARCH_PRIORITY_BATCH), 1);
  auto person = Later(Many(3, pb::SEARCH_PRIORITY_INTERACTIVE), 2);
  auto silent = Later(Many(1, pb::SEARCH_PRIORITY_UNSPECIFIED), 3);
  script_->search_gate.Open();
  for (auto* each : {&first, &batch, &person, &silent}) {
    EXPECT_OK(each->get());
  }
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(1, 4, 2));
}

TEST_F(QueueServiceTest, AnUnknownPriorityIsNamed) {
  ServeRows();
  EXPECT_THAT(Search(Many(1, static_cast<pb::SearchPriority>(9))),
              RefusedWith(kInvalidArgument, "priority = 9"));
  EXPECT_EQ(script_->searches, 0);
}

TEST_F(QueueServiceTest, OneCallersShareIsFullAndAnotherGetsIn) {
  Set(settings_.queue_requests_max, "5");
  ServeRows();
  std::vector<std::future<grpc::Status>> accepted;
  accepted.push_back(HoldSearch("greedy"));
  for (int i = 1; i <= 4; ++i) accepted.push_back(Later(SearchFor("c", {1, 0}), i, "greedy"));
  EXPECT_THAT(SearchAs("greedy"), RefusedWith(kResourceExhausted, "this caller's share"));
  accepted.push_back(Later(SearchFor("c", {1, 0}), 5, "other"));
  script_->search_gate.Open();
  for (auto& each : accepted) EXPECT_OK(each.get());
}

TEST_F(QueueServiceTest, WhatWouldMissItsDeadlineIsRefusedWithAHint) {
  ServeRows();
  auto first = HoldSearch();
  // The longer the pass overruns, the longer its predicted rest.
  grpc::Status status;
  std::optional<std::string> hint;
  while (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(30));
    status = Search(SearchFor("c", {1, 0}), nullptr, &context);
    hint = Trailer(context, "grpc-retry-pushback-ms");
  }
  EXPECT_THAT(status.error_message(), HasSubstr("its deadline is in"));
  EXPECT_THAT(hint, Optional(MatchesRegex("[0-9]+")));
  script_->search_gate.Open();
  EXPECT_OK(first.get());
  EXPECT_OK(Search(SearchFor("c", {1, 0})));
}

TEST_F(QueueServiceTest, RepliesThatNobodyReadsHoldBackTheirCallerAndNobodyElse) {
  Set(settings_.response_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "32KiB");
  // A pass may reserve several replies beyond the share. The limit leaves room for them.
  Set(settings_.replies_bytes_max, "1MiB");
  Set(settings_.caller_share_percent, "50");
  Serve();
  UploadWideRow();
  const pb::SearchRequest wide = Wide();
  ASSERT_OK(SearchAs("slow", wide));

  // Streams that are written and never read, until their replies are too many.
  const auto unread = StubWithFixedWindows();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<pb::SearchRequest, pb::SearchResponse>>>
      streams;
  grpc::Status held_back;
  for (int i = 0; i < 64 && held_back.ok(); ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->AddMetadata("nearfield-caller", "slow");
    streams.push_back(unread->SearchStream(contexts.back().get()));
    for (int j = 0; j < 8; ++j) streams.back()->Write(wide);
    held_back = SearchAs("slow", wide);
  }
  EXPECT_THAT(held_back, RefusedWith(kResourceExhausted, "to be read"));
  EXPECT_OK(SearchAs("other", wide));
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& stream : streams) static_cast<void>(stream->Finish());
  AwaitNothingHeld(replies());
  EXPECT_OK(SearchAs("slow", wide));
}

// Regression: only replies of searches were counted, and only after the work was done.
TEST_F(QueueServiceTest, AReplyIsReservedBeforeTheWorkForIt) {
  ServeRows();
  {
    ASSERT_OK_AND_ASSIGN(
        const auto all,
        replies().Reserve("abuser", settings_.replies_bytes_max.value() / kReplyCopies));
    std::optional<std::string> hint;
    EXPECT_THAT(FetchAs("other", {1}, &hint), RefusedWith(kResourceExhausted, "replies_bytes_max"));
    EXPECT_THAT(hint, Optional(MatchesRegex("[0-9]+")));
    EXPECT_THAT(SearchAs("other"), RefusedWith(kResourceExhausted, "replies_bytes_max"));
    EXPECT_EQ(script_->searches, 0);
  }
  EXPECT_OK(FetchAs("other", {1}));
  EXPECT_OK(SearchAs("other"));
  AwaitNothingHeld(replies());
}

// Regression: only Search and Fetch reserved their replies. Lists of collections exceeded the
// limit.
TEST_F(QueueServiceTest, AListOfCollectionsReservesItsReply) {
  ServeRows();
  {
    ASSERT_OK_AND_ASSIGN(
        const auto all,
        replies().Reserve("abuser", settings_.replies_bytes_max.value() / kReplyCopies));
    EXPECT_THAT(Call(&Admin::ListCollections, {}),
                RefusedWith(kResourceExhausted, "replies_bytes_max"));
    EXPECT_THAT(Call(&Admin::GetCollection, FromText("name: 'c'")),
                RefusedWith(kResourceExhausted, "replies_bytes_max"));
  }
  EXPECT_OK(Call(&Admin::ListCollections, {}));
  AwaitNothingHeld(replies());
}

// A fetch may name an id a thousand times. Each time its row is in the reply.
TEST_F(QueueServiceTest, AFetchReservesForEveryIdItNames) {
  Set(settings_.response_bytes_max, "1MiB");
  Set(settings_.replies_bytes_max, "2MiB");
  ServeRows();
  ASSERT_OK_AND_ASSIGN(const auto held, replies().Reserve("abuser", 600 << 10));
  EXPECT_OK(FetchAs("other", {1}));
  EXPECT_THAT(FetchAs("other", std::vector<uint64_t>(100, 1)),
              RefusedWith(kResourceExhausted, "replies_bytes_max"));
}

TEST_F(QueueServiceTest, ARequestHoldsItsBytesUntilItsCallEnds) {
  ServeRows();
  auto search = HoldSearch();
  EXPECT_GT(requests().bytes(), 0);
  script_->search_gate.Open();
  EXPECT_OK(search.get());
  AwaitNothingHeld(requests());
  ASSERT_OK_AND_ASSIGN(const auto all,
                       requests().Reserve("abuser", settings_.requests_bytes_max.value()));
  EXPECT_THAT(FetchAs("other", {1}), RefusedWith(kResourceExhausted, "requests_bytes_max"));
  EXPECT_THAT(SearchAs("other"), RefusedWith(kResourceExhausted, "requests_bytes_max"));
}

// Regression: a SearchAll holds its message, and each page holds a copy; only one was reserved.
TEST_F(QueueServiceTest, ASearchAllReservesEveryCopyOfItsMessage) {
  ServeRows();
  script_->search_gate.Close();
  pb::SearchAllRequest request;
  *request.mutable_search() = SearchFor("c", {1, 0});
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchAll(&context, request);
  script_->search_gate.AwaitArrivals(1);
  EXPECT_GE(requests().bytes(), static_cast<int64_t>(2 * request.search().SpaceUsedLong()));
  context.TryCancel();
  script_->search_gate.Open();
  EXPECT_THAT(stream->Finish(), HasCode(kCancelled));
  AwaitNothingHeld(requests());
}

// Regression: a reader that read nothing held its replies, and its share of the memory, as long as
// it answered pings.
TEST_F(QueueServiceTest, AReplyThatNobodyTakesEndsItsCall) {
  Set(settings_.response_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "32KiB");
  Set(settings_.reply_unread_ms, "50");
  Serve();
  UploadWideRow();
  const auto unread = StubWithFixedWindows();
  const auto cancelled_before = server_->state().unread_replies().cancelled_count();
  grpc::ClientContext context;
  const auto stream = unread->SearchStream(&context);
  while (stream->Write(Wide())) {
  }
  EXPECT_GT(server_->state().unread_replies().cancelled_count(), cancelled_before);
  pb::SearchResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(), HasCode(kCancelled));
  AwaitNothingHeld(replies());
}

TEST(CallerNameTest, AHostIsOneCallerWhateverItsPortsUnlessItNamesItself) {
  EXPECT_EQ(CallerName("", "ipv4:10.0.0.1:5000"), "ipv4:10.0.0.1");
  EXPECT_EQ(CallerName("", "ipv4:10.0.0.1:5001"), "ipv4:10.0.0.1");
  EXPECT_EQ(CallerName("", "ipv6:%5B::1%5D:5000"), "ipv6:%5B::1%5D");
  EXPECT_EQ(CallerName("", "unix:/run/nearfield.sock"), "unix:/run/nearfield.sock");
  EXPECT_EQ(CallerName("", ""), "");
  EXPECT_EQ(CallerName("indexer", "ipv4:10.0.0.1:5000"), "name:indexer");
  EXPECT_EQ(CallerName("ipv4:10.0.0.2", "ipv4:10.0.0.1:5000"), "name:ipv4:10.0.0.2");
  EXPECT_EQ(CallerName(std::string(128, 'x'), "ipv4:10.0.0.1:1"), "name:" + std::string(128, 'x'));
  EXPECT_EQ(CallerName(std::string(129, 'x'), "ipv4:10.0.0.1:1"), "ipv4:10.0.0.1");
}

}  // namespace
}  // namespace nearfield::server
