// Tests of a Scan while rows change, the server restarts or ends, and readers do not read: it stays
// in its epoch and within its memory.
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/scan_rows_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

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
    EXPECT_TRUE(Trailer(context, "grpc-retry-pushback-ms").has_value());
  }
  EXPECT_EQ(Scan().rows(), Model());
  AwaitNothingHeld();
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

TEST_F(ScanRowsServiceTest, AScanThatNobodyReadsIsCancelled) {
  Set(settings_.reply_unread_ms, "1000");  // the upload of a busy machine has this long, too
  ServeRange(3000);
  const auto unread = StubWithFixedWindows();
  const auto cancelled = [&] { return server_->state().unread_replies().cancelled_count(); };
  const int64_t before = cancelled();  // on a busy machine, replies before this one may be late
  grpc::ClientContext context;
  const auto stream = unread->Scan(&context, Of("c"));
  EXPECT_TRUE(Eventually([&] { return cancelled() > before; }));
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
  EXPECT_TRUE(Eventually([&] { return server_->state().live_calls().cancelled(); }));
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

}  // namespace
}  // namespace nearfield::server
