// Tests of Scan: the rows of one epoch in the order of their ids, however often it is continued and
// whatever changes meanwhile, within bounded memory.
#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "server/store/store.h"
#include "tests/server/in_process_call.h"
#include "tests/server/pages_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

using ScanInProcess = InProcessReplies<ReplyStream<pb::ScanResponse>, pb::ScanResponse>;

constexpr size_t kPayloadBytes = 4000;  // about 260 rows in a reply

// Id, vector and payload.
using Row = std::tuple<uint64_t, std::string, std::string>;

std::vector<Row> RowsOf(const pb::ScanResponse& reply) {
  std::vector<Row> rows;
  const int count = reply.ids().numbers_size();
  EXPECT_EQ(reply.payloads_size(), count);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    rows.emplace_back(reply.ids().numbers(i), reply.vectors().data().substr(at * 4, 4),
                      reply.payloads(i));
  }
  return rows;
}

// The replies of one call.
struct Scanned {
  grpc::Status status;
  std::vector<pb::ScanResponse> replies;

  std::vector<Row> rows() const {
    std::vector<Row> rows;
    for (const pb::ScanResponse& reply : replies) {
      for (Row& row : RowsOf(reply)) rows.push_back(std::move(row));
    }
    return rows;
  }
};

class ScanRowsServiceTest : public PagesServiceTest {
 protected:
  ScanRowsServiceTest() {
    Set(settings_.epochs_kept_percent, "100");
    Set(settings_.host_memory_bytes, "256MiB");
  }

  // Serves a collection "c" with the rows [0, rows_count) in several uploads, in no order.
  void ServeRange(uint64_t rows_count) {
    Serve();
    ASSERT_OK(CreateCollection("c", 1));
    Upload(0, rows_count);
  }
  // Uploads rows whose vectors and payloads are of their id and of `version`.
  void Upload(uint64_t begin, uint64_t end, int version = 0) {
    std::vector<uint64_t> ids;
    for (uint64_t id = begin; id < end; ++id) ids.push_back(id);
    random_.Shuffle(ids);
    const size_t part = ids.size() / 5 + 1;
    for (size_t from = 0; from < ids.size(); from += part) {
      const auto first = ids.begin() + static_cast<ptrdiff_t>(from);
      const std::vector<uint64_t> some(
          first, first + static_cast<ptrdiff_t>(std::min(part, ids.size() - from)));
      UploadSome(some, version);
    }
  }
  void UploadSome(const std::vector<uint64_t>& ids, int version) {
    pb::UploadRequest begin = Begin("c", ids.size(), ids.size() * kPayloadBytes);
    begin.mutable_begin()->set_mode(pb::UPLOAD_MODE_UPSERT);
    pb::UploadRequest request;
    pb::UploadBlock* const block = request.mutable_block();
    std::string vectors;
    for (const uint64_t id : ids) {
      const Row row = RowOf(id, version);
      block->mutable_ids()->add_numbers(id);
      vectors += std::get<1>(row);
      block->add_payloads(std::get<2>(row));
      rows_[id] = row;
    }
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block->mutable_vectors()->set_data(vectors);
    ASSERT_OK(Send({begin, request, Commit()}));
  }
  static Row RowOf(uint64_t id, int version) {
    const std::string text = std::to_string(id) + "/" + std::to_string(version);
    return {id, Bytes({static_cast<float>(id) + static_cast<float>(version) / 8}),
            text + std::string(kPayloadBytes - text.size(), 'p')};
  }
  void Delete(const std::vector<uint64_t>& ids) {
    pb::DeleteRequest request = Of("c");
    request.mutable_ids()->mutable_numbers()->Add(ids.begin(), ids.end());
    ASSERT_OK(Call(&Ingest::Delete, request));
    for (const uint64_t id : ids) rows_.erase(id);
  }
  std::vector<Row> Model() const {
    std::vector<Row> rows;
    for (const auto& [id, row] : rows_) rows.push_back(row);
    return rows;
  }

  Scanned Scan(const pb::ScanRequest& request = Of("c"), const std::string& caller = "") {
    grpc::ClientContext context;
    if (!caller.empty()) context.AddMetadata("nearfield-caller", caller);
    const auto stream = retrieval_->Scan(&context, request);
    Scanned scanned;
    for (pb::ScanResponse reply; stream->Read(&reply);) scanned.replies.push_back(reply);
    scanned.status = stream->Finish();
    return scanned;
  }
  static pb::ScanRequest After(const pb::ScanResponse& reply) {
    pb::ScanRequest request = Of("c");
    request.set_cursor(reply.next_cursor());
    return request;
  }
  static pb::ScanRequest With(const std::string& text) {
    return FromText("collection: 'c' " + text);
  }

  std::unique_ptr<ScanInProcess> ScanHere(const pb::ScanRequest& request = Of("c")) {
    auto call = std::make_unique<ScanInProcess>();
    call->Bind(
        server_->service().Scan(call.get(), std::make_shared<const pb::ScanRequest>(request)));
    return call;
  }
  // Windows that grow with the link would accept every reply.
  std::unique_ptr<pb::Retrieval::Stub> StubWithFixedWindows() {
    grpc::ChannelArguments fixed_windows;
    fixed_windows.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return pb::Retrieval::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), fixed_windows));
  }
  ByteAccount& replies() { return server_->state().ledger().replies; }
  void AwaitNothingHeld() {
    const MemoryLedger& ledger = server_->state().ledger();
    while (ledger.replies.bytes() > 0 || ledger.requests.bytes() > 0) std::this_thread::yield();
  }

  testing::Random random_{seed_};
  std::map<uint64_t, Row> rows_;  // of the current epoch
};

TEST_F(ScanRowsServiceTest, AScanSendsEveryRowOnceInTheOrderOfTheIds) {
  ServeRange(1500);
  Delete({0, 7, 700, 1499});
  Upload(100, 200, 1);
  const Scanned scanned = Scan();
  ASSERT_OK(scanned.status);
  EXPECT_EQ(scanned.rows(), Model());
  const uint64_t incarnation = CallOk(&Admin::GetCollection, Named("c")).collection().incarnation();
  EXPECT_GT(scanned.replies.size(), 4u);
  for (const pb::ScanResponse& reply : scanned.replies) {
    EXPECT_EQ(reply.has_next_cursor(), &reply != &scanned.replies.back());
    EXPECT_EQ(reply.rows_count(), rows_.size());
    EXPECT_EQ(reply.epoch(), scanned.replies[0].epoch());
    EXPECT_EQ(reply.incarnation(), incarnation);
    EXPECT_EQ(reply.vectors().dtype(), pb::DATA_TYPE_FLOAT32);
    EXPECT_LE(reply.ByteSizeLong(), size_t{1} << 20);
  }
  const Scanned ids = Scan(With("with_payload: false with_vectors: false"));
  ASSERT_EQ(ids.replies.size(), 1u);
  EXPECT_EQ(ids.replies[0].ids().numbers_size(), static_cast<int>(rows_.size()));
  EXPECT_EQ(ids.replies[0].payloads_size(), 0);
  EXPECT_FALSE(ids.replies[0].has_vectors());
}

TEST_F(ScanRowsServiceTest, ACollectionWithoutRowsHasOneEmptyReply) {
  Serve();
  ASSERT_OK(CreateCollection("c", 1));
  const Scanned scanned = Scan();
  ASSERT_OK(scanned.status);
  ASSERT_EQ(scanned.replies.size(), 1u);
  EXPECT_EQ(scanned.replies[0].ids().numbers_size(), 0);
  EXPECT_EQ(scanned.replies[0].rows_count(), 0u);
  EXPECT_FALSE(scanned.replies[0].has_next_cursor());
}

TEST_F(ScanRowsServiceTest, TextIdsComeInBytewiseOrder) {
  Serve();
  ASSERT_OK(CreateCollection("c", 1, pb::METRIC_DOT, pb::ID_TYPE_STRING));
  pb::UploadRequest block;
  const IdColumn ids = testing::MakeIds(IdType::kString, 300, seed_);
  std::vector<std::string> want;
  for (int64_t i = 0; i < ids.size(); ++i) {
    want.emplace_back(ids.string(i));
    block.mutable_block()->mutable_ids()->add_texts(want.back());
  }
  block.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  block.mutable_block()->mutable_vectors()->set_data(Bytes(std::vector<float>(300, 1.0f)));
  ASSERT_OK(Send({Begin("c", 300), block, Commit()}));
  std::sort(want.begin(), want.end());
  std::vector<std::string> got;
  pb::ScanRequest request = With("rows_max: 7");
  while (true) {
    const Scanned scanned = Scan(request);
    ASSERT_OK(scanned.status);
    ASSERT_EQ(scanned.replies.size(), 1u);
    const pb::ScanResponse& reply = scanned.replies[0];
    got.insert(got.end(), reply.ids().texts().begin(), reply.ids().texts().end());
    if (!reply.has_next_cursor()) break;
    request.set_cursor(reply.next_cursor());
  }
  EXPECT_EQ(got, want);
}

TEST_F(ScanRowsServiceTest, RowsMaxEndsAScanWithACursorIfRowsFollow) {
  ServeRange(50);
  const Scanned some = Scan(With("rows_max: 20"));
  ASSERT_OK(some.status);
  EXPECT_EQ(some.rows().size(), 20u);
  ASSERT_TRUE(some.replies.back().has_next_cursor());
  const Scanned rest = Scan(After(some.replies.back()));
  EXPECT_EQ(rest.rows().size(), 30u);
  EXPECT_EQ(std::get<0>(rest.rows()[0]), 20u);
  const Scanned all = Scan(With("rows_max: 50"));
  EXPECT_EQ(all.rows(), Model());
  EXPECT_FALSE(all.replies.back().has_next_cursor());
}

// The law of cursors.
TEST_F(ScanRowsServiceTest, EveryCursorContinuesInTheFirstEpochWhateverChangedSince) {
  ServeRange(1200);
  const std::vector<Row> want = Model();
  const Scanned scanned = Scan();
  ASSERT_OK(scanned.status);
  ASSERT_EQ(scanned.rows(), want);
  const auto expect_rest = [&] {
    size_t place = 0;
    for (const pb::ScanResponse& reply : scanned.replies) {
      place += static_cast<size_t>(reply.ids().numbers_size());
      if (!reply.has_next_cursor()) continue;
      const Scanned rest = Scan(After(reply));
      ASSERT_OK(rest.status);
      EXPECT_EQ(rest.rows(),
                std::vector<Row>(want.begin() + static_cast<ptrdiff_t>(place), want.end()));
      EXPECT_EQ(rest.replies[0].rows_count(), want.size());
      EXPECT_EQ(rest.replies[0].epoch(), scanned.replies[0].epoch());
    }
  };
  Upload(1200, 1300);
  Upload(300, 600, 1);
  expect_rest();
  std::vector<uint64_t> deleted;
  for (uint64_t id = 0; id < 1000; id += 2) deleted.push_back(id);
  Delete(deleted);
  expect_rest();
  ASSERT_OK(Call(&Admin::Compact, Of("c")));
  expect_rest();
  pb::UploadRequest replace = Begin("c", 1);
  replace.mutable_begin()->set_mode(pb::UPLOAD_MODE_REPLACE);
  ASSERT_OK(Send({replace, Commit()}));
  expect_rest();
  ASSERT_EQ(Scan().replies[0].rows_count(), 0u);
}

TEST_F(ScanRowsServiceTest, AScanUnderWayStaysInItsEpoch) {
  Set(settings_.epochs_kept_max, "2");
  Set(settings_.cursor_ms, "1");
  ServeRange(1200);
  const std::vector<Row> want = Model();
  const auto scan = ScanHere();
  std::vector<Row> got;
  int replies_count = 0;
  for (pb::ScanResponse reply; scan->Next(&reply); ++replies_count) {
    for (Row& row : RowsOf(reply)) got.push_back(std::move(row));
    const auto changed = static_cast<uint64_t>(replies_count);
    Upload(100 * changed, 100 * changed + 50, 1);
    Delete({1100 + changed});
    ASSERT_OK(Call(&Admin::Compact, Of("c")));
  }
  EXPECT_OK(scan->AwaitEnd().status);
  EXPECT_GT(replies_count, 3);
  EXPECT_EQ(got, want);
}

TEST_F(ScanRowsServiceTest, AFilterChoosesTheRowsAndTheirNumber) {
  ServeRange(1000);
  pb::ScanRequest request = Of("c");
  std::vector<Row> want;
  for (uint64_t id = 0; id < 1000; id += 2) {
    request.mutable_filter()->mutable_has_id()->add_numbers(id);
    want.push_back(rows_[id]);
  }
  const Scanned scanned = Scan(request);
  ASSERT_OK(scanned.status);
  EXPECT_EQ(scanned.rows(), want);
  ASSERT_GT(scanned.replies.size(), 1u);
  EXPECT_EQ(scanned.replies[0].rows_count(), 500u);
  // The filter of a cursor's epoch, after its rows were deleted.
  Delete({0, 2, 4, 998});
  request.set_cursor(scanned.replies[0].next_cursor());
  const auto sent = static_cast<ptrdiff_t>(scanned.replies[0].ids().numbers_size());
  EXPECT_EQ(Scan(request).rows(), std::vector<Row>(want.begin() + sent, want.end()));
  const auto other = RefusedWith(kInvalidArgument, "cursor: of another scan");
  EXPECT_THAT(Scan(After(scanned.replies[0])).status, other);
  request.mutable_filter()->mutable_has_id()->add_numbers(1);
  EXPECT_THAT(Scan(request).status, other);
  const Scanned none = Scan(With("filter { has_id { numbers: 5000 } }"));
  ASSERT_OK(none.status);
  EXPECT_EQ(none.replies.size(), 1u);
  EXPECT_EQ(none.replies[0].rows_count(), 0u);
  AwaitNothingHeld();
}

TEST_F(ScanRowsServiceTest, ACursorOfAnotherCallIsRefused) {
  ServeRange(600);
  const Scanned scanned = Scan();
  pb::SearchRequest search = For(1, 5);
  const std::string of_search = CursorBehind(search);
  pb::ScanRequest scan = Of("c");
  scan.set_cursor(of_search);
  EXPECT_THAT(Scan(scan).status, RefusedWith(kInvalidArgument, "cursor: of a search"));
  search.set_cursor(scanned.replies[0].next_cursor());
  EXPECT_THAT(Search(search), RefusedWith(kInvalidArgument, "cursor: of a scan"));
  EXPECT_THAT(All(search).status, RefusedWith(kInvalidArgument, "search.cursor: of a scan"));
  ASSERT_OK(CreateCollection("d", 1));
  scan = After(scanned.replies[0]);
  scan.set_collection("d");
  EXPECT_THAT(Scan(scan).status, RefusedWith(kInvalidArgument, "cursor: of another scan"));
  for (const std::string& bytes :
       {std::string("x"), scan.cursor().substr(0, 20), scan.cursor() + "x", std::string(1, '\2')}) {
    scan = Of("c");
    scan.set_cursor(bytes);
    EXPECT_THAT(Scan(scan).status, RefusedWith(kInvalidArgument, "cursor: "));
  }
}

TEST_F(ScanRowsServiceTest, WrongRequestsAreRefused) {
  ServeRange(600);
  EXPECT_THAT(Scan(With("rows_max: 0")).status,
              RefusedWith(kInvalidArgument, "rows_max = 0, must be at least 1"));
  EXPECT_THAT(Scan(Of("absent")).status, HasCode(kNotFound));
  EXPECT_THAT(Scan(With("filter {}")).status, RefusedWith(kInvalidArgument, "filter: "));
  EXPECT_THAT(Scan(With("filter { exists { attribute: 'a' } }")).status,
              RefusedWith(kInvalidArgument, "filter.exists.attribute"));
  EXPECT_THAT(Scan(With("incarnation: 1 min_epoch: 99")).status,
              RefusedWith(kFailedPrecondition, "incarnation: "));
  pb::ScanRequest later = After(Scan().replies[0]);
  later.set_min_epoch(99);
  EXPECT_THAT(Scan(later).status,
              RefusedWith(kInvalidArgument, "min_epoch: 99", "the cursor is of epoch"));
  later.set_min_epoch(1);
  EXPECT_OK(Scan(later).status);
  AwaitNothingHeld();
}

TEST_F(ScanRowsServiceTest, AScanWaitsForItsEpoch) {
  ServeRange(10);
  const uint64_t next = Scan().replies[0].epoch() + 1;
  auto later = std::async(std::launch::async,
                          [&] { return Scan(With("min_epoch: " + std::to_string(next))); });
  while (server_->state().core()->epoch_waiters.waiting() == 0) std::this_thread::yield();
  UploadSome({10}, 0);
  const Scanned scanned = later.get();
  ASSERT_OK(scanned.status);
  EXPECT_EQ(scanned.replies[0].epoch(), next);
  EXPECT_EQ(scanned.rows(), Model());
}

TEST_F(ScanRowsServiceTest, AReaderThatDoesNotReadHoldsOneReply) {
  ServeRange(1500);
  const auto scan = ScanHere();
  pb::ScanResponse reply;
  ASSERT_TRUE(scan->Next(&reply));
  ASSERT_TRUE(scan->Next(&reply));
  // The third reply is being written, or is not made yet.
  const auto one_reply = int64_t{2} << 20;  // counted twice: the message and its serialized form
  for (int i = 0; i < 100; ++i) {
    ASSERT_LE(replies().bytes(), one_reply);
    std::this_thread::yield();
  }
  while (scan->Next(&reply)) EXPECT_LE(replies().bytes(), one_reply);
  EXPECT_OK(scan->AwaitEnd().status);
}

TEST_F(ScanRowsServiceTest, AScanGetsNoReplyThatDoesNotFitIntoTheLedger) {
  Set(settings_.response_bytes_max, "1MiB");
  Set(settings_.replies_bytes_max, "2MiB");
  ServeRange(600);
  {
    ASSERT_OK_AND_ASSIGN(const auto held, replies().Reserve("another", 512 << 10));
    grpc::ClientContext context;
    const auto stream = retrieval_->Scan(&context, Of("c"));
    pb::ScanResponse reply;
    EXPECT_FALSE(stream->Read(&reply));
    EXPECT_THAT(stream->Finish(), RefusedWith(kResourceExhausted, "replies_bytes_max"));
    EXPECT_TRUE(Trailer(context, "retry-after-ms").has_value());
  }
  EXPECT_EQ(Scan().rows(), Model());
  AwaitNothingHeld();
}

TEST_F(ScanRowsServiceTest, ARowLargerThanAReplyGetsALargerReply) {
  Set(settings_.payload_bytes_max, "8MiB");
  Serve();
  ASSERT_OK(CreateCollection("c", 1));
  const std::string payload(3 << 20, 'x');
  ASSERT_OK(UploadRange(0, 2, payload));
  ASSERT_OK(UploadRange(2, 1, "small"));
  const Scanned scanned = Scan();
  ASSERT_OK(scanned.status);
  ASSERT_EQ(scanned.rows().size(), 3u);
  EXPECT_EQ(std::get<2>(scanned.rows()[1]), payload);
  EXPECT_EQ(std::get<2>(scanned.rows()[2]), "small");
}

class ScanRowsDurableTest : public ScanRowsServiceTest {
 protected:
  const store::TempDir dir_;
};

TEST_F(ScanRowsDurableTest, ARowAboveTheMessageLimitIsNamed) {
  Set(settings_.data_dir, dir_ / "data");
  Serve();
  ASSERT_OK(CreateCollection("c", 1));
  ASSERT_OK(UploadRange(4, 2, std::string(20'000, 'x')));
  ASSERT_OK(UploadRange(6, 1, std::string(65'000, 'x')));
  Drain();
  Set(settings_.payload_bytes_max, "1KiB");
  Set(settings_.response_bytes_max, "64KiB");
  Serve();
  const Scanned scanned = Scan();
  EXPECT_THAT(scanned.status, RefusedWith(kResourceExhausted, "row 6: takes 650", "64512",
                                          "ask without vectors, payloads"));
  EXPECT_EQ(scanned.rows().size(), 2u);
  EXPECT_EQ(Scan(With("with_payload: false with_vectors: false")).replies[0].rows_count(), 3u);
}

// A restart drops the epochs that were kept, but not the current one.
TEST_F(ScanRowsDurableTest, ACursorOfTheCurrentEpochSurvivesARestart) {
  Set(settings_.data_dir, dir_ / "data");
  ServeRange(600);
  const Scanned scanned = Scan();
  ASSERT_GT(scanned.replies.size(), 1u);
  Drain();
  Serve();
  const Scanned rest = Scan(After(scanned.replies[0]));
  ASSERT_OK(rest.status);
  EXPECT_EQ(rest.rows().size() + static_cast<size_t>(scanned.replies[0].ids().numbers_size()),
            rows_.size());
  UploadSome({7}, 1);
  Drain();
  Serve();
  EXPECT_THAT(Scan(After(scanned.replies[0])).status,
              RefusedWith(kFailedPrecondition, "is kept no longer"));
}

TEST_F(ScanRowsServiceTest, AScanGivesWayToUploadsBeyondItsShareOfTheMemory) {
  Set(settings_.epochs_kept_percent, "0");
  ServeRange(1200);
  const auto scan = ScanHere();
  pb::ScanResponse reply;
  ASSERT_TRUE(scan->Next(&reply));
  pb::UploadRequest replace = Begin("c", 1);
  replace.mutable_begin()->set_mode(pb::UPLOAD_MODE_REPLACE);
  ASSERT_OK(Send({replace, Commit()}));
  while (scan->Next(&reply)) {
  }
  const absl::Status status = scan->AwaitEnd().status;
  EXPECT_THAT(status, StatusIs(kFailedPrecondition, HasSubstr("is kept no longer")));
  EXPECT_THAT(Scan(After(reply)).status, RefusedWith(kFailedPrecondition, "is kept no longer"));
}

TEST_F(ScanRowsServiceTest, StreamsThatHoldTheCallersEpochsLeaveNoneForAnother) {
  Set(settings_.epochs_kept_max, "1");
  ServeRange(600);
  const auto scan = ScanHere();
  pb::ScanResponse reply;
  ASSERT_TRUE(scan->Next(&reply));
  UploadSome({600}, 0);
  const auto second = ScanHere();
  while (second->Next(&reply)) {
  }
  EXPECT_THAT(second->AwaitEnd().status,
              StatusIs(kResourceExhausted, HasSubstr("epochs_kept_max = 1")));
  EXPECT_OK(Scan(Of("c"), "another").status);
  while (scan->Next(&reply)) {
  }
  EXPECT_OK(scan->AwaitEnd().status);
}

TEST_F(ScanRowsServiceTest, AScanEndsWhenItsCollectionIsDropped) {
  ServeRange(1200);
  const auto scan = ScanHere();
  pb::ScanResponse reply;
  ASSERT_TRUE(scan->Next(&reply));
  ASSERT_OK(Call(&Admin::DropCollection, Named("c")));
  while (scan->Next(&reply)) {
  }
  EXPECT_THAT(scan->AwaitEnd().status, StatusIs(kNotFound));
}

TEST_F(ScanRowsServiceTest, ACancelledScanHoldsNothing) {
  ServeRange(1500);
  grpc::ClientContext context;
  const auto stream = retrieval_->Scan(&context, Of("c"));
  pb::ScanResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  context.TryCancel();
  while (stream->Read(&reply)) {
  }
  EXPECT_THAT(stream->Finish(), HasCode(kCancelled));
  AwaitNothingHeld();
}

// As for every stream: see queue_service_test.cc.
TEST_F(ScanRowsServiceTest, AScanThatNobodyReadsIsCancelled) {
  Set(settings_.reply_unread_ms, "50");
  ServeRange(3000);
  const auto unread = StubWithFixedWindows();
  grpc::ClientContext context;
  const auto stream = unread->Scan(&context, Of("c"));
  while (server_->state().unread_replies().cancelled_count() == 0) std::this_thread::yield();
  pb::ScanResponse reply;
  while (stream->Read(&reply)) {
  }
  EXPECT_THAT(stream->Finish(), HasCode(kCancelled));
  AwaitNothingHeld();
}

TEST_F(ScanRowsServiceTest, TheDrainEndsAScan) {
  Set(settings_.drain_ms, "20");
  ServeRange(3000);
  const auto unread = StubWithFixedWindows();
  grpc::ClientContext context;
  const auto stream = unread->Scan(&context, Of("c"));
  pb::ScanResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  auto here = ScanHere();  // its second reply is not taken before the drain is over
  ASSERT_TRUE(here->Next(&reply));
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  while (!server_->state().live_calls().cancelled()) std::this_thread::yield();
  while (here->Next(&reply)) {
  }
  EXPECT_THAT(here->AwaitEnd().status, StatusIs(kUnavailable));
  here = nullptr;
  while (stream->Read(&reply)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  server_ = nullptr;
}

TEST_F(ScanRowsServiceTest, AScanIsOneCallInTheLogAndTheCounters) {
  ServeRange(600);
  EXPECT_EQ(Scan().rows(), Model());
  const pb::GetCountersResponse counters = CallOk(&Admin::GetCounters);
  int found = 0;
  for (const pb::CallCounter& calls : counters.calls()) {
    if (calls.method() != "Scan") continue;
    ++found;
    EXPECT_EQ(calls.status(), "OK");
    EXPECT_EQ(calls.calls_count(), 1u);
    EXPECT_EQ(calls.rows_count(), 600u);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace nearfield::server
