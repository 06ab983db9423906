// Tests of upload places and tokens over a real channel: which uploads get a place, which lose it,
// and the list.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

using Stream = grpc::ClientReaderWriter<pb::UploadRequest, pb::UploadResponse>;

// Runs ahead of the steady clock by an offset that the test sets. One reading by the test's thread
// can be held until another thread reads the clock.
class HookedClock final : public Clock {
 public:
  TimePoint Now() const override {
    if (std::this_thread::get_id() != test_thread_) {
      ++other_readings_;
    } else if (const auto hook = std::exchange(hook_, nullptr); hook != nullptr) {
      const int64_t before = other_readings_;
      hook();
      EXPECT_TRUE(Eventually([&] { return other_readings_ != before; }));
    }
    return std::chrono::steady_clock::now() + ahead_.load();
  }
  void Advance(std::chrono::seconds time) { ahead_ = ahead_.load() + time; }
  // In the next reading of this thread, calls `hook` and waits for a reading by another thread.
  void HoldUpNextReading(std::function<void()> hook) { hook_ = std::move(hook); }

 private:
  const std::thread::id test_thread_ = std::this_thread::get_id();
  mutable std::function<void()> hook_;
  mutable std::atomic<int64_t> other_readings_{0};
  std::atomic<TimePoint::duration> ahead_{};
};

class IngestUploadsTest : public ServerFixture {
 protected:
  void ServeDurably() {
    Set(settings_.data_dir, dir_ / "data");
    ServeEmpty();
  }
  static pb::UploadRequest BeginToken(const std::string& token, uint64_t rows_max = 10) {
    pb::UploadRequest request = Begin("c", rows_max);
    request.mutable_begin()->set_upload_token(token);
    return request;
  }
  pb::ListUploadsResponse List(uint32_t uploads_max = 100) {
    pb::ListUploadsResponse response;
    EXPECT_OK(ListStatus(uploads_max, &response));
    return response;
  }
  grpc::Status ListStatus(uint32_t uploads_max, pb::ListUploadsResponse* response = nullptr) {
    pb::ListUploadsRequest request;
    request.set_uploads_max(uploads_max);
    return Call(&Ingest::ListUploads, request, response);
  }
  // Uploads one row until its upload gets a place.
  grpc::Status SendOnceThereIsAPlace(uint64_t id) {
    grpc::Status status;
    do {
      status = Send({Begin("c", 1), Block({id}), Commit()});
    } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    return status;
  }

  const store::TempDir dir_;
};

// Regression: a client that had created the collection looked whether it was empty, and then
// dropped the rows of a second client.
TEST_F(IngestUploadsTest, ADropIfEmptySparesRowsUploadsAndOtherIncarnations) {
  ServeDurably();
  const auto incarnation = CallOk(&Admin::GetCollection, Named("c")).collection().incarnation();
  const auto drop = [&](uint64_t of) {
    return Call(&Admin::DropCollection,
                FromText("name: 'c' only_if_empty: true incarnation: " + std::to_string(of)));
  };
  EXPECT_THAT(drop(incarnation + 1), RefusedWith(kFailedPrecondition, "incarnation"));
  {
    UploadCall upload(*ingest_, {Begin("c", 1)});
    ASSERT_TRUE(upload.Read());
    EXPECT_THAT(drop(incarnation), RefusedWith(kFailedPrecondition, "has an open upload"));
    upload.Write(Block({1}));
    upload.Write(Commit());
    ASSERT_OK(upload.ReadToEnd());
  }
  EXPECT_THAT(drop(incarnation), RefusedWith(kFailedPrecondition, "has 1 rows"));
  ASSERT_OK(Call(&Ingest::Delete, FromText("collection: 'c' ids { numbers: 1 }")));
  EXPECT_THAT(Send({BeginToken("t"), Block({1})}), HasCode(kInvalidArgument));
  EXPECT_THAT(drop(incarnation), RefusedWith(kFailedPrecondition, "has an open upload"));
  ASSERT_OK(Call(&Ingest::DropUpload, FromText("collection: 'c' upload_token: 't'")));
  ASSERT_OK(drop(incarnation));
  EXPECT_THAT(Call(&Admin::GetCollection, Named("c")), HasCode(kNotFound));
}

TEST_F(IngestUploadsTest, OpenUploadsAreListedWithWhatTheyHold) {
  ServeDurably();
  EXPECT_EQ(List().uploads_count(), 0u);
  // Ends without a commit; its rows stay under the token.
  EXPECT_THAT(Send({BeginToken("ended"), Block({1, 2})}), HasCode(kInvalidArgument));
  UploadCall open(*ingest_, {BeginToken("live", 100000)});
  ASSERT_TRUE(open.Read());
  const pb::ListUploadsResponse listed = List();
  ASSERT_EQ(listed.uploads_size(), 2);
  EXPECT_EQ(listed.uploads_count(), 2u);
  for (const pb::OpenUpload& upload : listed.uploads()) {
    const bool live = upload.upload_token() == "live";
    EXPECT_EQ(upload.collection(), "c");
    EXPECT_EQ(upload.mode(), pb::UPLOAD_MODE_INSERT);
    EXPECT_EQ(upload.is_live(), live);
    EXPECT_EQ(upload.rows_count(), live ? 0u : 2u);
    EXPECT_LT(upload.untouched_s(), 3600u);
    EXPECT_EQ(upload.bytes_on_disk() >= 100000u * 2 * sizeof(float), live)
        << upload.bytes_on_disk() << ": of a live stream all that it declared, else its rows alone";
  }
  EXPECT_EQ(List(1).uploads_size(), 1);
  EXPECT_EQ(List(1).uploads_count(), 2u);
  EXPECT_THAT(ListStatus(0), RefusedWith(kInvalidArgument, "uploads_max = 0, must be 1 .. 10000"));
  EXPECT_THAT(ListStatus(10001), HasCode(kInvalidArgument));
  open.context.TryCancel();
  EXPECT_THAT(open.stream->Finish(), HasCode(kCancelled));
}

TEST_F(IngestUploadsTest, WithoutADataDirectoryThereIsNoList) {
  ServeEmpty();
  EXPECT_THAT(ListStatus(1), RefusedWith(kFailedPrecondition, "data_dir is none"));
}

// Regression: 64 cancelled begins blocked every further upload with a token for a week.
TEST_F(IngestUploadsTest, CancelledBeginsBarNoFurtherUpload) {
  Set(settings_.upload_tokens_max, "4");
  ServeDurably();
  for (int i = 0; i < 8; ++i) {
    UploadCall upload(*ingest_, {BeginToken("cancelled" + std::to_string(i))});
    ASSERT_TRUE(upload.Read()) << i;
    upload.context.TryCancel();
    EXPECT_THAT(upload.stream->Finish(), HasCode(kCancelled));
    AwaitNoUpload();
    EXPECT_TRUE(Eventually([&] { return !List().uploads(List().uploads_size() - 1).is_live(); }));
  }
  EXPECT_OK(Send({BeginToken("honest"), Block({1}), Commit()}));
  EXPECT_LE(List().uploads_count(), 4u);
}

// Regression: a resumed upload accepted a mode that it did not begin with.
TEST_F(IngestUploadsTest, ATokenOfAnotherModeIsRefused) {
  ServeDurably();
  EXPECT_THAT(Send({BeginToken("open"), Block({1})}), HasCode(kInvalidArgument));
  EXPECT_OK(Send({BeginToken("done"), Block({2}), Commit()}));
  for (const char* token : {"open", "done"}) {
    pb::UploadRequest request = BeginToken(token);
    request.mutable_begin()->set_mode(pb::UPLOAD_MODE_UPSERT);
    EXPECT_THAT(Send({request, Block({3}), Commit()}),
                RefusedWith(kFailedPrecondition, "begun with another mode"))
        << token;
  }
  EXPECT_EQ(RowsCount(), 1u);
}

TEST_F(IngestUploadsTest, ATokenIsThatOfItsCollection) {
  ServeDurably();
  ASSERT_OK(CreateCollection("d"));
  EXPECT_THAT(Send({BeginToken("open"), Block({1})}), HasCode(kInvalidArgument));
  EXPECT_OK(Send({BeginToken("done"), Block({2}), Commit()}));
  for (const char* token : {"open", "done"}) {
    pb::UploadRequest other = BeginToken(token);
    other.mutable_begin()->set_collection("d");
    EXPECT_OK(Send({other, Block({token[0] == 'o' ? 3u : 4u}), Commit()})) << token;
  }
  EXPECT_EQ(RowsCount(), 1u);
  EXPECT_EQ(RowsCount("d"), 2u);
}

// Regression: after uploads_max streams were cancelled while the engine worked, every upload was
// refused.
TEST_F(IngestUploadsTest, AStreamCancelledWhileTheEngineWorksGivesItsPlaceBack) {
  Set(settings_.uploads_max, "1");
  ServeEmpty();
  script_->append_gate.Close();
  UploadCall upload(*ingest_, {Begin("c", 1), Block({1})});
  script_->append_gate.AwaitArrivals(1);
  upload.context.TryCancel();
  EXPECT_THAT(upload.stream->Finish(), HasCode(kCancelled));
  script_->append_gate.Open();
  AwaitNoUpload();
  // The place is free shortly after the memory. If it is lost, the test ends at its time limit.
  EXPECT_OK(SendOnceThereIsAPlace(2));
}

// Regression: uploads that sent a small block now and then held all places, and every other upload
// was refused.
TEST_F(IngestUploadsTest, ATricklingUploadGivesItsPlaceToOneThatIsRefused) {
  Set(settings_.uploads_max, "1");
  Set(settings_.upload_idle_ms, "3000");
  Set(settings_.upload_bytes_per_second_min, "1GiB");
  ServeEmpty();
  UploadCall slow(*ingest_, {Begin("c", 1 << 20)});
  ASSERT_TRUE(slow.Read());
  std::atomic<bool> ended{false};
  std::thread trickle([&] {
    for (uint64_t id = 1; slow.Write(Block({id})) && slow.Read();) ++id;
    ended = true;
  });
  EXPECT_OK(SendOnceThereIsAPlace(0));
  trickle.join();
  EXPECT_TRUE(ended);
  EXPECT_THAT(slow.stream->Finish(),
              RefusedWith(kResourceExhausted, "upload_bytes_per_second_min"));
  EXPECT_TRUE(Trailer(slow.context, "grpc-retry-pushback-ms").has_value());
}

// Regression: an upload that lost its place got the error that nothing is committed while its
// commit continued.
TEST_F(IngestUploadsTest, AnUploadThatLosesItsPlaceWhileItCommitsIsToldOfTheCommit) {
  HookedClock clock;
  server_clock_ = &clock;
  Set(settings_.uploads_max, "1");
  ServeEmpty();
  // The commit must arrive after this thread has chosen the slowest upload and before it notifies
  // that upload. The stream then reads the clock and waits for the lock of the places. If the
  // reading came from an earlier write, the upload ends before its commit: try again.
  grpc::Status status;
  do {
    script_->commit_gate.Close();
    UploadCall upload(*ingest_, {Begin("c", 1), Block({1})});
    while (upload.Read() && !upload.response.has_progress()) {
    }
    clock.Advance(std::chrono::seconds(1000));
    std::future<bool> written;
    clock.HoldUpNextReading(
        [&] { written = std::async(std::launch::async, [&] { return upload.Write(Commit()); }); });
    EXPECT_FALSE(server_->state().upload_places().Take("another", nullptr).ok());
    script_->commit_gate.Open();
    written.wait();
    status = upload.ReadToEnd();
    AwaitNoUpload();
    EXPECT_EQ(RowsCount(), status.ok() ? 1u : 0u) << status.error_message();
    EXPECT_EQ(upload.response.committed().rows_count(), RowsCount());
  } while (!status.ok() && !HasFailure());
  Drain();  // the clock ends here
}

// Regression: one caller took all upload places, and every other caller was refused.
TEST_F(IngestUploadsTest, ACallerLeavesPlacesToOthers) {
  Set(settings_.uploads_max, "2");
  Set(settings_.caller_share_percent, "50");
  ServeEmpty();
  grpc::ClientContext contexts[2];
  std::vector<std::unique_ptr<Stream>> streams;
  for (grpc::ClientContext& context : contexts) {
    context.AddMetadata("nearfield-caller", "greedy");
    streams.push_back(ingest_->Upload(&context));
    streams.back()->Write(Begin("c", 1));
    pb::UploadResponse response;
    EXPECT_EQ(streams.back()->Read(&response), &context == &contexts[0]);
  }
  EXPECT_THAT(streams[1]->Finish(), RefusedWith(kResourceExhausted, "of this caller"));
  EXPECT_OK(Send({Begin("c", 1), Block({1}), Commit()}));
  contexts[0].TryCancel();
  EXPECT_THAT(streams[0]->Finish(), HasCode(kCancelled));
}

// Short ids take ten times their bytes after decoding: more than the memory of an upload's place,
// and less than the ledger has.
TEST_F(IngestUploadsTest, ABlockOfShortTextIdsTakesTheRoomOfTheLedger) {
  Set(settings_.request_bytes_max, "1MiB");
  Serve();
  ASSERT_OK(CreateCollection("c", 1, pb::METRIC_DOT, pb::ID_TYPE_STRING));
  constexpr int kRows = 40'000;
  pb::UploadRequest block;
  for (int i = 0; i < kRows; ++i) block.mutable_block()->mutable_ids()->add_texts(absl::StrCat(i));
  block.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
  block.mutable_block()->mutable_vectors()->set_data(std::string(kRows * 4, '\0'));
  EXPECT_OK(Send({Begin("c", kRows), block, Commit()}));
  EXPECT_EQ(RowsCount(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(server_->state().ledger().requests.bytes(), 0);
}

}  // namespace
}  // namespace nearfield::server
