// Tests of Scan: the rows of one epoch in the order of their ids, and what is refused.
#include <algorithm>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/server/scan_rows_fixture.h"

namespace nearfield::server {
namespace {

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

TEST_F(ScanRowsServiceTest, RowsMaxMayEndJustBeforeOrAfterTheEndOfAReply) {
  ServeRange(600);
  const std::vector<Row> model = Model();
  const auto reply_rows = static_cast<uint64_t>(Scan().replies[0].ids().numbers_size());
  ASSERT_LT(reply_rows + 1, model.size());
  for (const uint64_t rows_max : {reply_rows - 1, reply_rows, reply_rows + 1}) {
    const Scanned some = Scan(With("rows_max: " + std::to_string(rows_max)));
    ASSERT_OK(some.status);
    const auto end = model.begin() + static_cast<ptrdiff_t>(rows_max);
    EXPECT_EQ(some.rows(), std::vector<Row>(model.begin(), end));
    EXPECT_EQ(some.replies.size(), rows_max > reply_rows ? 2u : 1u);
    EXPECT_EQ(Scan(After(some.replies.back())).rows(), std::vector<Row>(end, model.end()));
  }
}

// The law of cursors.
TEST_F(ScanRowsServiceTest, AFilterChoosesTheRowsAndTheirNumber) {
  ServeRange(1000);
  pb::ScanRequest request = Of("c");
  request.set_filter_text("id in $1");
  pb::IdList* const ids = request.add_filter_args()->mutable_ids();
  std::vector<Row> want;
  for (uint64_t id = 0; id < 1000; id += 2) {
    ids->add_numbers(id);
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
  ids->add_numbers(1);
  EXPECT_THAT(Scan(request).status, other);
  const Scanned none = Scan(With("filter_text: 'id == 5000'"));
  ASSERT_OK(none.status);
  EXPECT_EQ(none.replies.size(), 1u);
  EXPECT_EQ(none.replies[0].rows_count(), 0u);
  AwaitNothingHeld();
}

// A value in the text and the same value in an argument choose the same rows, with the same
// cursors.
TEST_F(ScanRowsServiceTest, AFilterWithArgumentsIsTheSameScan) {
  ServeRange(1000);
  pb::ScanRequest arguments = Of("c");
  arguments.set_filter_text("id in $1");
  pb::IdList* const ids = arguments.add_filter_args()->mutable_ids();
  std::vector<std::string> numbers;
  for (uint64_t id = 0; id < 1000; id += 2) {
    ids->add_numbers(id);
    numbers.push_back(absl::StrCat(id));
  }
  pb::ScanRequest text = Of("c");
  text.set_filter_text(absl::StrCat("id in (", absl::StrJoin(numbers, ", "), ")"));
  const Scanned scanned = Scan(arguments);
  ASSERT_OK(scanned.status);
  EXPECT_EQ(Scan(text).rows(), scanned.rows());
  ASSERT_GT(scanned.replies.size(), 1u);
  arguments.set_cursor(scanned.replies[0].next_cursor());
  text.set_cursor(scanned.replies[0].next_cursor());
  EXPECT_EQ(Scan(text).rows(), Scan(arguments).rows());
  EXPECT_THAT(Scan(With("filter_text: 'id ='")).status,
              RefusedWith(kInvalidArgument, "filter_text: column "));
  EXPECT_THAT(Scan(With("filter_args { ids {} } filter_text: 'id == 1'")).status,
              RefusedWith(kInvalidArgument, "filter_args[0]: $1 does not occur in filter_text"));
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
  EXPECT_THAT(Scan(With("filter_text: 'exists(a)'")).status,
              RefusedWith(kInvalidArgument, "declares no attribute"));
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
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() > 0; }));
  UploadSome({10}, 0);
  const Scanned scanned = later.get();
  ASSERT_OK(scanned.status);
  EXPECT_EQ(scanned.replies[0].epoch(), next);
  EXPECT_EQ(scanned.rows(), Model());
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

// A restart drops the epochs that were kept, but not the current one.
// As for every stream: see queue_service_test.cc.
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
