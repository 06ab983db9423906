// Tests uploads: blocks, tokens, checkpoints, and every way in which an upload fails.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "server/store/store.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

constexpr std::chrono::minutes kLong{10};

class StoreUploadTest : public ::testing::Test {
 protected:
  StoreUploadTest() : tested_(dir_ / "data") { id_ = tested_.Create("a", 1); }

  Store& store() { return tested_.store(); }
  fault::UploadData Data(int64_t number) {
    return fault::UploadData::Make(tested_.model().collections.at("a").spec, number);
  }
  absl::StatusOr<std::unique_ptr<SegmentWriter>> Begin(const BeginUploadOptions& options) {
    return store().BeginUpload(id_, options);
  }
  absl::StatusOr<std::unique_ptr<SegmentWriter>> Resume(const std::string& token) {
    return store().ResumeUpload(Key(token), [](const StoredBlock&) { return absl::OkStatus(); });
  }
  UploadKey Key(const std::string& token) const { return {.collection_id = id_, .token = token}; }
  // Begins an upload with one durable block.
  std::unique_ptr<SegmentWriter> BeginDurable(const BeginUploadOptions& options) {
    auto writer = Begin(options);
    EXPECT_OK(writer);
    EXPECT_OK((*writer)->Append(Data(1).blocks[0].View(0)));
    EXPECT_OK((*writer)->Checkpoint());
    return *std::move(writer);
  }
  // Commits an upload without rows.
  void CommitEmpty(const BeginUploadOptions& options, uint64_t epoch = 0) {
    ASSERT_OK_AND_ASSIGN(const auto writer, Begin(options));
    ASSERT_OK(store().CommitUpload(writer.get(), {.epoch = epoch}));
  }
  size_t Files() const { return SegmentsIn(dir_ / "data").size(); }

  int64_t now_ = 1000;  // of the clocks that a test sets
  const TempDir dir_;
  ModelStore tested_;
  int64_t id_ = 0;
};

TEST_F(StoreUploadTest, AnAbandonedUploadLeavesNothing) {
  {
    ASSERT_OK_AND_ASSIGN(const auto writer, tested_.Begin("a", 1));
    EXPECT_EQ(Files(), 1u);
  }
  EXPECT_EQ(Files(), 0u);
  EXPECT_TRUE(tested_.Same());
  EXPECT_OK(store().Verify());
}

TEST_F(StoreUploadTest, BlocksComeInOrderAndOnce) {
  const fault::UploadData data = Data(1);
  ASSERT_OK_AND_ASSIGN(const auto writer, Begin({}));
  EXPECT_THAT(writer->Append(data.blocks[0].View(1)), FailsWith(kInvalidArgument, "next is 0"));
  ASSERT_OK(writer->Append(data.blocks[0].View(0)));
  EXPECT_THAT(writer->Append(data.blocks[0].View(0)), StatusIs(kAlreadyExists));
  EXPECT_EQ(writer->next_block(), 1);
  EXPECT_EQ(writer->rows_count(), data.blocks[0].ids.size());
}

TEST_F(StoreUploadTest, RefusesBlocksThatDoNotFit) {
  const fault::UploadData data = Data(1);
  ASSERT_OK_AND_ASSIGN(const auto writer, Begin({}));
  StoredBlock block = data.blocks[0].View(0);
  const absl::Span<const uint8_t> rows = block.rows;
  block.rows.remove_suffix(1);
  EXPECT_THAT(writer->Append(block), StatusIs(kInvalidArgument));
  block.rows = rows;
  const IdColumn none(block.ids->type());
  block.ids = &none;
  EXPECT_THAT(writer->Append(block), StatusIs(kInvalidArgument));
  // The upload can continue.
  EXPECT_OK(writer->Append(data.blocks[0].View(0)));
}

TEST_F(StoreUploadTest, ACommitNeedsItsBlocksOnTheDisk) {
  ASSERT_OK_AND_ASSIGN(const auto writer, tested_.Begin("a", 1));
  EXPECT_THAT(store().CommitUpload(writer.get(), {.epoch = 1}),
              FailsWith(kFailedPrecondition, "synced"));
  ASSERT_OK(tested_.Commit("a", 1, writer.get()));
  EXPECT_THAT(writer->Sync(), StatusIs(kFailedPrecondition));
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreUploadTest, TheEpochMustBeTheNext) {
  ASSERT_OK_AND_ASSIGN(const auto writer, tested_.Begin("a", 1));
  ASSERT_OK(writer->Sync());
  for (const uint64_t epoch : {uint64_t{0}, uint64_t{2}}) {
    EXPECT_THAT(store().CommitUpload(writer.get(), {.epoch = epoch}),
                FailsWith(kFailedPrecondition, "must be 1"));
  }
  EXPECT_OK(tested_.Commit("a", 1, writer.get()));
}

// The engine found nothing to replace. Meanwhile another upload may have committed.
TEST_F(StoreUploadTest, WhatIsWithoutEffectKeepsItsTokenAndNothingElse) {
  const auto before = Begin({.mode = UploadMode::kReplace, .token = "t"});
  const auto behind = Begin({.mode = UploadMode::kReplace, .token = "u"});
  ASSERT_OK(before);
  ASSERT_OK(behind);
  ASSERT_OK(store().CommitUpload(before->get(), {.epoch = 0, .without_effect = true}));
  EXPECT_TRUE(tested_.Same());
  ASSERT_OK(tested_.Upload("a", 3));
  EXPECT_THAT(store().CommitUpload(behind->get(), {.epoch = 2, .without_effect = true}),
              FailsWith(kFailedPrecondition, "epoch: 2"));
  ASSERT_OK(store().CommitUpload(behind->get(), {.epoch = 0, .without_effect = true}));
  EXPECT_TRUE(tested_.Same());
  for (const std::string token : {"t", "u"}) {
    EXPECT_EQ(store().GetUpload(Key(token))->state, UploadState::kCommitted);
    EXPECT_EQ(store().GetUpload(Key(token))->epoch, 0u);
  }
  ASSERT_OK_AND_ASSIGN(const auto rows, tested_.Begin("a", 1));
  ASSERT_OK(rows->Sync());
  EXPECT_THAT(store().CommitUpload(rows.get(), {.epoch = 1, .without_effect = true}),
              StatusIs(kFailedPrecondition));
}

TEST_F(StoreUploadTest, AnUploadWithoutRowsHasNoEffectButReplaceHas) {
  ASSERT_OK(tested_.Upload("a", 1));
  const uint64_t epoch = tested_.model().collections.at("a").epoch;
  CommitEmpty({.token = "t"}, epoch);
  EXPECT_TRUE(tested_.Same());
  EXPECT_EQ(store().GetUpload(Key("t"))->state, UploadState::kCommitted);
  CommitEmpty({.mode = UploadMode::kReplace}, epoch + 1);
  tested_.model().collections.at("a").rows.clear();
  ++tested_.model().collections.at("a").epoch;
  EXPECT_TRUE(tested_.Same());
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
  EXPECT_EQ(Files(), 0u);
}

TEST_F(StoreUploadTest, ADropAbortsWhatIsUnderWay) {
  ASSERT_OK_AND_ASSIGN(auto writer, tested_.Begin("a", 1, "t"));
  ASSERT_OK(store().DropCollection(id_));
  EXPECT_THAT(writer->Checkpoint(), StatusIs(kAborted));
  ASSERT_OK(writer->Sync());
  EXPECT_THAT(store().CommitUpload(writer.get(), {.epoch = 1}), FailsWith(kAborted, "dropped"));
  writer.reset();
  EXPECT_EQ(Files(), 0u);
  EXPECT_THAT(store().GetUpload(Key("t")), StatusIs(kNotFound));
}

// Regression: the file stayed until the next start.
TEST_F(StoreUploadTest, ADropWhileAnUploadIsReadAgainLeavesNoFile) {
  {
    ASSERT_OK_AND_ASSIGN(const auto writer, tested_.Begin("a", 1, "t"));
    ASSERT_OK(writer->Checkpoint());
  }
  const auto drop = [&](const StoredBlock&) {
    EXPECT_OK(store().DropCollection(id_));
    EXPECT_EQ(Files(), 1u);
    return absl::CancelledError("the caller has left");
  };
  EXPECT_THAT(store().ResumeUpload(Key("t"), drop), StatusIs(kCancelled));
  EXPECT_EQ(Files(), 0u);
  EXPECT_OK(store().Verify());
}

TEST_F(StoreUploadTest, ATokenResumesBehindTheLastCheckpoint) {
  const fault::UploadData data = Data(5);
  ASSERT_GE(data.blocks.size(), 2u);
  {
    ASSERT_OK_AND_ASSIGN(const auto writer, Begin({.mode = data.mode, .token = "t"}));
    ASSERT_OK(writer->Append(data.blocks[0].View(0)));
    ASSERT_OK(writer->Checkpoint());
    ASSERT_OK(writer->Append(data.blocks[1].View(1)));
  }
  tested_.Reopen();
  ASSERT_OK_AND_ASSIGN(const auto facts, store().GetUpload(Key("t")));
  EXPECT_EQ(facts.state, UploadState::kOpen);
  EXPECT_EQ(facts.next_block, 1);
  EXPECT_EQ(facts.rows_count, data.blocks[0].ids.size());
  int64_t blocks = 0;
  ASSERT_OK_AND_ASSIGN(auto writer, store().ResumeUpload(Key("t"), [&](const StoredBlock& block) {
    const StoredBlock expected = data.blocks[0].View(0);
    EXPECT_EQ(block.number, 0);
    EXPECT_TRUE(block.rows == expected.rows);
    ++blocks;
    return absl::OkStatus();
  }));
  EXPECT_EQ(blocks, 1);
  store().AwaitWriterEnd(Key("t"), {});
  EXPECT_THAT(Resume("t"), FailsWith(kFailedPrecondition, "in use"));
  for (size_t i = 1; i < data.blocks.size(); ++i) {
    ASSERT_OK(writer->Append(data.blocks[i].View(static_cast<int64_t>(i))));
  }
  ASSERT_OK(tested_.Commit("a", 5, writer.get()));
  EXPECT_TRUE(tested_.Same());
  EXPECT_EQ(store().GetUpload(Key("t"))->epoch, 1u);
  EXPECT_THAT(Begin({.token = "t"}), StatusIs(kAlreadyExists));
  EXPECT_THAT(Resume("t"), FailsWith(kFailedPrecondition, "committed"));
  writer.reset();
  tested_.Reopen();
  EXPECT_EQ(store().GetUpload(Key("t"))->state, UploadState::kCommitted);
  EXPECT_TRUE(tested_.Same());
}

// Regression: an import that was killed and begun again at once was refused.
TEST_F(StoreUploadTest, TheEndOfAWriterIsAwaited) {
  auto writer = BeginDurable({.token = "t"});
  std::thread ends([&] { writer.reset(); });
  store().AwaitWriterEnd(Key("t"), kLong);
  EXPECT_OK(Resume("t"));
  ends.join();
  store().AwaitWriterEnd(Key("t"), kLong);
  store().AwaitWriterEnd(Key("unknown"), kLong);
}

TEST_F(StoreUploadTest, AWriterThatOutlivesTheStoreHoldsTheDirectory) {
  ASSERT_OK_AND_ASSIGN(auto writer, tested_.Begin("a", 1));
  tested_.Close();
  EXPECT_THAT(writer->Sync(), StatusIs(kUnavailable));
  EXPECT_THAT(Store::Open(tested_.Options()), StatusIs(kFailedPrecondition));
  writer.reset();
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
  EXPECT_EQ(Files(), 0u);
}

TEST_F(StoreUploadTest, CheckpointsNeedAToken) {
  ASSERT_OK_AND_ASSIGN(const auto writer, tested_.Begin("a", 1));
  EXPECT_THAT(writer->Checkpoint(), StatusIs(kFailedPrecondition));
}

TEST_F(StoreUploadTest, TokensAreBounded) {
  StoreOptions options = tested_.Options();
  options.unix_seconds = [this] { return now_; };
  options.steady_seconds = options.unix_seconds;
  options.uploads_open_max = 2;
  options.tokens_committed_max = 3;
  options.upload_idle_s_max = 100;
  tested_.Reopen(options);
  BeginDurable({.token = "old"});
  BeginDurable({.token = "old2"});
  EXPECT_THAT(Begin({.token = "third"}), FailsWith(kResourceExhausted, "limit"));
  now_ += 101;
  ASSERT_OK(Begin({.token = "third"}));
  EXPECT_THAT(store().GetUpload(Key("old")), StatusIs(kNotFound));
  ASSERT_OK(store().DropUpload(Key("third")));
  EXPECT_THAT(store().DropUpload(Key("third")), StatusIs(kNotFound));
  for (const std::string token : {"c1", "c2", "c3", "c4"}) {
    CommitEmpty({.token = token});
    ++now_;
  }
  EXPECT_THAT(store().GetUpload(Key("c1")), StatusIs(kNotFound));
  EXPECT_OK(store().GetUpload(Key("c2")));
  EXPECT_OK(store().GetUpload(Key("c4")));
  EXPECT_OK(store().Verify());
}

// 64 streams that began a resumable upload and were cancelled kept all the disk space that they had
// declared, 12.5 GB, until the server was restarted.
TEST_F(StoreUploadTest, AnUploadWithoutAWriterKeepsOnlyTheRoomOfItsDurableRows) {
  constexpr int64_t kDeclared = int64_t{32} << 20;
  constexpr int64_t kSlack = int64_t{1} << 20;  // blocks of the file system
  const fault::UploadData data = Data(1);
  {
    const auto writer = BeginDurable({.token = "t", .bytes_expected = kDeclared});
    EXPECT_TRUE(store().OpenUploads().at(0).is_live);
    EXPECT_GE(store().OpenUploads().at(0).bytes_on_disk, kDeclared)
        << "the file system of this test must support fallocate";
  }
  const OpenUpload ended = store().OpenUploads().at(0);
  EXPECT_FALSE(ended.is_live);
  EXPECT_EQ(ended.rows_count, data.blocks[0].ids.size());
  EXPECT_LT(ended.bytes_on_disk, data.blocks[0].View(0).rows.size() + kSlack);
  EXPECT_OK(Resume("t"));
}

// For a week, the same 64 streams left no place for any other upload with a token.
TEST_F(StoreUploadTest, ABegunUploadWithoutRowsGivesWayToTheNextOne) {
  StoreOptions options = tested_.Options();
  options.unix_seconds = [this] { return now_; };
  options.uploads_open_max = 3;
  tested_.Reopen(options);
  BeginDurable({.token = "durable"});
  ++now_;
  ASSERT_OK(Begin({.token = "first"}));
  ++now_;
  ASSERT_OK(Begin({.token = "second"}));
  ASSERT_OK_AND_ASSIGN(const auto live, Begin({.token = "live"}));
  EXPECT_THAT(store().GetUpload(Key("first")), StatusIs(kNotFound));
  EXPECT_OK(store().GetUpload(Key("second")));
  ASSERT_OK_AND_ASSIGN(const auto live2, Begin({.token = "live2"}));
  EXPECT_THAT(store().GetUpload(Key("second")), StatusIs(kNotFound));
  EXPECT_THAT(Begin({.token = "one more"}),
              FailsWith(kResourceExhausted, "upload_tokens_max is 3"));
  EXPECT_OK(store().GetUpload(Key("durable")));
  EXPECT_EQ(Files(), 3u) << "the files of those that gave way are gone";
  EXPECT_OK(store().Verify());
}

// One caller took all places for uploads with a token, and every other caller was refused.
TEST_F(StoreUploadTest, ACallerHoldsNoMoreOpenUploadsThanItsShare) {
  StoreOptions options = tested_.Options();
  options.uploads_open_max = 3;
  options.uploads_open_per_caller_max = 2;
  tested_.Reopen(options);
  BeginDurable({.token = "a1", .caller = "a"});
  ASSERT_OK(Begin({.token = "a2", .caller = "a"}));
  ASSERT_OK(Begin({.token = "b1", .caller = "b"}));
  BeginDurable({.token = "a3", .caller = "a"});
  EXPECT_THAT(store().GetUpload(Key("a2")), StatusIs(kNotFound))
      << "its own upload without rows gives way, not that of another";
  EXPECT_OK(store().GetUpload(Key("b1")));
  EXPECT_THAT(Begin({.token = "a4", .caller = "a"}),
              FailsWith(kResourceExhausted, "of this caller"));
  EXPECT_OK(store().GetUpload(Key("b1")));
}

TEST_F(StoreUploadTest, OpenUploadsAreListedByAgeThenToken) {
  StoreOptions options = tested_.Options();
  options.steady_seconds = [this] { return now_; };
  tested_.Reopen(options);
  ASSERT_OK(Begin({.mode = UploadMode::kUpsert, .token = "z"}));
  now_ += 5;
  ASSERT_OK(Begin({.token = "b"}));
  BeginDurable({.token = "a"});
  CommitEmpty({.token = "committed"});
  now_ += 2;
  const std::vector<OpenUpload> uploads = store().OpenUploads();
  ASSERT_EQ(uploads.size(), 3u);
  EXPECT_EQ(uploads[0].token, "z");
  EXPECT_EQ(uploads[0].mode, UploadMode::kUpsert);
  EXPECT_EQ(uploads[0].untouched_s, 7);
  EXPECT_EQ(uploads[1].token, "a");
  EXPECT_EQ(uploads[1].collection_id, id_);
  EXPECT_GT(uploads[1].rows_count, 0);
  EXPECT_EQ(uploads[2].token, "b");
  EXPECT_EQ(uploads[2].untouched_s, 2);
}

TEST_F(StoreUploadTest, AnUploadThatCannotFitIsRefusedAtOnceAndNothingElseIs) {
  StoreOptions options = tested_.Options();
  options.free_bytes_min = int64_t{1} << 60;
  tested_.Reopen(options);
  // Regression: on a small disk the message said that more bytes of the free ones stay reserved
  // than are free.
  EXPECT_THAT(Begin({.bytes_expected = 1}),
              FailsWith(kResourceExhausted,
                        " bytes of disk are needed, and 1152921504606846976 more", " are free"));
  EXPECT_OK(store().CreateCollection("b", {.dim = 1}, ""));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(StoreUploadTest, RoomExpectedCoversWhatIsWritten) {
  for (int64_t number = 1; number < 30; ++number) {
    const fault::UploadData data = Data(number);
    ASSERT_OK_AND_ASSIGN(const auto writer, tested_.Begin("a", number));
    int64_t rows = 0;
    int64_t values = 0;
    for (const auto& block : data.blocks) {
      rows += std::max<int64_t>(block.ids.size(), 1000);  // as if its blocks were full
      values += block.payloads.value_bytes() + block.attributes.value_bytes() + block.ids.bytes();
    }
    EXPECT_LE(writer->bytes(), UploadBytes(tested_.model().collections.at("a").spec, rows, values));
  }
}

}  // namespace
}  // namespace nearfield::store
