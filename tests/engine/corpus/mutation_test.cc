// Tests changes of a collection against a map. After any order of uploads, deletions and
// compactions, it holds the rows of the map and answers as a collection that was filled by one
// upload.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/row_model.h"

namespace nearfield::testing {
namespace {

absl::StatusOr<CommitResult> Send(Collection& collection, const Corpus& rows, UploadMode mode,
                                  const CommitHook& hook = nullptr) {
  UploadReservation reservation = {.rows_max = std::max<int64_t>(rows.rows_count(), 1)};
  reservation.mode = mode;
  auto upload = collection.BeginUpload(reservation);
  if (!upload.ok()) return upload.status();
  const absl::Status appended = (*upload)->Append({.ids = &rows.ids, .rows = rows.rows});
  if (!appended.ok()) return appended;
  return (*upload)->Commit(hook);
}

class CorpusChangeTest : public ::testing::Test {
 protected:
  void ExpectModel() {
    const auto stats = collection_->Stats();
    ASSERT_EQ(stats.rows_count, static_cast<int64_t>(model_.rows.size()));
    ASSERT_EQ(stats.epoch, model_.epoch);
    const float query[2] = {1.0f, 0.5f};
    ASSERT_OK_AND_ASSIGN(const auto got, SearchOne(*fake_.engine, *collection_, query, 200));
    const auto fresh = *fake_.engine->CreateCollection(kPlainSpec);
    ASSERT_OK(Send(*fresh, model_.AllRows(), UploadMode::kInsert));
    ASSERT_OK_AND_ASSIGN(const auto want, SearchOne(*fake_.engine, *fresh, query, 200));
    ASSERT_THAT(got, BytesEqual(want));
  }

  // Draws ids from a small range, perhaps some twice, and values that tie sometimes.
  Corpus DrawRows(int64_t rows_max) {
    std::vector<uint64_t> ids;
    std::vector<float> values;
    for (int64_t i = random_.Between(0, rows_max); i > 0; --i) {
      ids.push_back(static_cast<uint64_t>(random_.Between(0, 60)));
      values.push_back(static_cast<float>(random_.Between(0, 9)));
    }
    return PlainRows(ids, values);
  }

  // Returns rows with the ids [begin, end), some of them equal.
  static Corpus RowsFrom(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> ids;
    std::vector<float> values;
    for (uint64_t id = begin; id < end; ++id) {
      ids.push_back(id);
      values.push_back(static_cast<float>(id % 7));
    }
    return PlainRows(ids, values);
  }

  // Change the collection and the model.
  absl::Status Upsert(const Corpus& rows) {
    model_.Commit(UploadMode::kUpsert, UploadOf(rows));
    return Send(*collection_, rows, UploadMode::kUpsert).status();
  }
  absl::Status Delete(const IdColumn& ids) {
    model_.Delete(ids);
    return collection_->Delete(ids).status();
  }

  void SetModel(uint64_t epoch, const Corpus& rows) {
    model_ = {.spec = kPlainSpec, .epoch = epoch - 1};
    model_.Commit(UploadMode::kInsert, UploadOf(rows));
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  Random random_{TestSeed()};
  RowModel<> model_ = {.spec = kPlainSpec};
};

// Records the last call of the hook. `answer` is the hook's result.
struct Told {
  CommitHook Hook() {
    return [this](const PendingChange& change) {
      ++calls;
      epoch = change.epoch;
      rows_count = change.rows_count;
      superseded.assign(change.rows_superseded.begin(), change.rows_superseded.end());
      removed.clear();
      for (int64_t i = 0; i < change.ids_removed->size(); ++i) {
        removed.push_back(change.ids_removed->number(i));
      }
      removes_all = change.removes_all;
      return answer;
    };
  }

  absl::Status answer;
  int calls = 0;
  uint64_t epoch = 0;
  int64_t rows_count = 0;
  std::vector<uint32_t> superseded;
  std::vector<uint64_t> removed;
  bool removes_all = false;
};

TEST_F(CorpusChangeTest, SmokeAnyOrderOfChangesEqualsAMap) {
  for (int step = 0; step < 1500; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    Told told;
    const bool refused = random_.OneIn(8);
    if (refused) told.answer = absl::DataLossError("the hook says no");
    RowModel<> next = model_;
    absl::Status status;
    const int64_t what = random_.Between(0, 10);
    if (what < 5) {
      const UploadMode mode = what == 0 ? UploadMode::kReplace : UploadMode::kUpsert;
      Corpus rows = DrawRows(12);
      if (mode == UploadMode::kReplace) {
        RowModel<> once = {.spec = kPlainSpec};
        once.Commit(mode, UploadOf(rows));
        rows = once.AllRows();
      }
      next.Commit(mode, UploadOf(rows));
      status = Send(*collection_, rows, mode, told.Hook()).status();
    } else if (what < 7) {
      const uint64_t base = 1000 + static_cast<uint64_t>(step) * 10;
      const Corpus fresh = PlainRows({base, base + 1, base + 2}, {0, 1, 2});
      next.Commit(UploadMode::kInsert, UploadOf(fresh));
      status = Send(*collection_, fresh, UploadMode::kInsert, told.Hook()).status();
    } else if (what < 9) {
      const Corpus rows = DrawRows(20);
      next.Delete(rows.ids);
      status = collection_->Delete(rows.ids, told.Hook()).status();
    } else {
      ASSERT_OK(
          collection_->Compact({.dead_share_max = random_.Unit() * 0.9,
                                .generations_max = static_cast<int32_t>(random_.Between(1, 17))}));
    }
    if (told.calls > 0 && refused) {
      EXPECT_THAT(status, StatusIs(kDataLoss, HasSubstr("the hook says no")));
    } else {
      ASSERT_OK(status);
      model_ = std::move(next);
      if (told.calls > 0) {
        EXPECT_EQ(told.epoch, model_.epoch);
      }
    }
    ASSERT_LE(told.calls, 1);
    ExpectModel();
    if (HasFatalFailure()) return;
  }
}

TEST_F(CorpusChangeTest, UpsertTakesTheLastOfAnIdAndTellsTheHookWhatGoes) {
  ASSERT_OK(Send(*collection_, PlainRows({1, 2, 3}, {1, 2, 3}), UploadMode::kInsert));
  Told told;
  ASSERT_OK_AND_ASSIGN(const auto result,
                       Send(*collection_, PlainRows({7, 2, 7, 9, 7, 2}, {10, 20, 30, 40, 50, 60}),
                            UploadMode::kUpsert, told.Hook()));
  EXPECT_EQ(result.rows_count, 3);
  EXPECT_EQ(result.rows_replaced, 1);
  EXPECT_EQ(told.epoch, 2u);
  EXPECT_EQ(told.rows_count, 3);
  EXPECT_THAT(told.superseded, ElementsAre(0, 1, 2));
  EXPECT_THAT(told.removed, ElementsAre(2));
  EXPECT_FALSE(told.removes_all);
  SetModel(2, PlainRows({1, 2, 3, 7, 9}, {1, 60, 3, 50, 40}));
  ExpectModel();
  // A superseded row does not hold its id: the id is free after the last row with it is deleted.
  ASSERT_OK(collection_->Delete(Ids({7})));
  ASSERT_OK(Send(*collection_, PlainRows({7}, {8}), UploadMode::kInsert));
  SetModel(4, PlainRows({1, 2, 3, 7, 9}, {1, 60, 3, 8, 40}));
  ExpectModel();
}

TEST_F(CorpusChangeTest, ReplaceRefusesDoublesAndMayEmptyTheCollection) {
  ASSERT_OK(Send(*collection_, PlainRows({1, 2}, {1, 2}), UploadMode::kInsert));
  EXPECT_THAT(Send(*collection_, PlainRows({5, 5}, {1, 2}), UploadMode::kReplace),
              StatusIs(kAlreadyExists, HasSubstr("id 5 occurs twice")));
  Told told;
  ASSERT_OK(Send(*collection_, PlainRows({2, 5}, {7, 8}), UploadMode::kReplace, told.Hook()));
  EXPECT_TRUE(told.removes_all);
  EXPECT_THAT(told.removed, IsEmpty());
  SetModel(2, PlainRows({2, 5}, {7, 8}));
  ExpectModel();
  ASSERT_OK_AND_ASSIGN(const auto emptied,
                       Send(*collection_, PlainRows({}, {}), UploadMode::kReplace, told.Hook()));
  EXPECT_EQ(emptied.rows_replaced, 2);
  EXPECT_EQ(told.calls, 2);
  ASSERT_OK(Send(*collection_, PlainRows({}, {}), UploadMode::kReplace, told.Hook()));
  EXPECT_EQ(told.calls, 2);  // there was nothing to remove
  EXPECT_EQ(collection_->Stats().epoch, 3u);
  EXPECT_EQ(collection_->Stats().device_bytes, 0);
}

TEST_F(CorpusChangeTest, ACollectionGoesOnFromTheEpochItIsMadeAt) {
  collection_ = *fake_.engine->CreateCollection(kPlainSpec, 41);
  EXPECT_EQ(collection_->Stats().epoch, 41u);
  ASSERT_OK_AND_ASSIGN(const auto result,
                       Send(*collection_, PlainRows({1}, {1}), UploadMode::kInsert));
  EXPECT_EQ(result.epoch, 42u);
}

TEST_F(CorpusChangeTest, CompactionGivesDeadRowsBack) {
  std::vector<uint64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  ASSERT_OK(
      Send(*collection_, PlainRows(ids, std::vector<float>(1000, 1.0f)), UploadMode::kInsert));
  const int64_t bytes_before = collection_->Stats().device_bytes;
  ids.resize(600);
  ASSERT_OK(collection_->Delete(Ids(ids)));
  ASSERT_OK_AND_ASSIGN(const auto compacted, collection_->Compact({}));
  EXPECT_FALSE(compacted.done);
  EXPECT_EQ(compacted.rows_copied, 400);
  EXPECT_EQ(compacted.rows_given_back, 600);
  const CollectionStats stats = collection_->Stats();
  EXPECT_EQ(stats.rows_deleted, 0);
  EXPECT_EQ(stats.rows_count, 400);
  EXPECT_EQ(stats.epoch, 2u);
  EXPECT_EQ(stats.device_bytes, bytes_before * 4 / 10);
  EXPECT_TRUE(collection_->Compact({})->done);
}

TEST_F(CorpusChangeTest, CompactionSaysWhatItCannotDo) {
  EXPECT_THAT(collection_->Compact({.dead_share_max = 1.0}),
              StatusIs(kInvalidArgument, HasSubstr("dead_share_max = 1")));
  EXPECT_THAT(collection_->Compact({.generations_max = 17}),
              StatusIs(kInvalidArgument, HasSubstr("generations_max = 17")));
  EXPECT_TRUE(collection_->Compact({})->done);
  FakeDeviceOptions device;
  device.memory_bytes = 1000 * 28 + 200;  // no memory for a copy
  fake_ = MakeFakeEngine({.device = device});
  collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  std::vector<uint64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  ASSERT_OK(
      Send(*collection_, PlainRows(ids, std::vector<float>(1000, 1.0f)), UploadMode::kInsert));
  ids.resize(500);
  ASSERT_OK(collection_->Delete(Ids(ids)));
  EXPECT_THAT(collection_->Compact({}), StatusIs(kResourceExhausted));
  EXPECT_EQ(collection_->Stats().rows_count, 500);
}

// A compaction that publishes the epoch of its start would revert the epochs of commits during its
// copy.
TEST_F(CorpusChangeTest, ACommitDuringTheCopyOfACompactionKeepsItsEpochAndItsRows) {
  ASSERT_OK(Upsert(RowsFrom(0, 100)));
  std::vector<uint64_t> gone(50);
  for (size_t i = 0; i < gone.size(); ++i) gone[i] = 2 * i;
  ASSERT_OK(Delete(Ids(gone)));
  int copies = 0;
  fake_.device->OnCopy([&] {
    if (++copies > 1) return;
    ASSERT_OK(Upsert(PlainRows({1, 500}, {8, 9})));
    ASSERT_OK(Delete(Ids({3})));
  });
  ASSERT_OK_AND_ASSIGN(const auto compacted, collection_->Compact({}));
  EXPECT_EQ(compacted.rows_copied, 50);
  ASSERT_EQ(copies, 1);
  ExpectModel();
  EXPECT_EQ(collection_->PinEpoch()->epoch(), 4u);
}

// The bits after the last row of a word were counted as excluded rows, so the number of chosen rows
// was too small.
TEST_F(CorpusChangeTest, AFilterCountsNoBitsAfterTheLastRow) {
  int64_t rows_count = 0;
  for (const int64_t added : {1, 62, 1, 1, 64}) {  // also the sizes of the parts
    std::vector<uint64_t> ids;
    for (int64_t i = 0; i < added; ++i) ids.push_back(static_cast<uint64_t>(rows_count + i));
    rows_count += added;
    ASSERT_OK(Send(*collection_, PlainRows(ids, std::vector<float>(ids.size(), 1.0f)),
                   UploadMode::kInsert));
    RowFilter all;
    all.chosen.assign(4, ~uint64_t{0});
    EXPECT_EQ(*collection_->CountRows(nullptr, all), rows_count);
    RowFilter last;
    last.chosen.assign(static_cast<size_t>(rows_count + 63) / 64, 0);
    last.chosen.back() = uint64_t{1} << ((rows_count - 1) % 64);
    EXPECT_EQ(*collection_->CountRows(nullptr, last), 1);
    EXPECT_EQ(*collection_->CountRows(nullptr, RowFilter{}), 0);
  }
}

TEST_F(CorpusChangeTest, RowsDeletedWhileTheyAreCopiedStayDeleted) {
  constexpr uint64_t kRows = 400;
  std::atomic<bool> going_on{true};
  for (uint64_t part = 0; part < 8; ++part) {
    ASSERT_OK(Upsert(RowsFrom(part * kRows / 8, (part + 1) * kRows / 8)));
  }
  std::thread compactor([&] {
    while (going_on) {
      const auto result = collection_->Compact({.dead_share_max = 0.01, .generations_max = 2});
      EXPECT_OK(result);
    }
  });
  for (int i = 0; i < 300; ++i) {
    const auto id = static_cast<uint64_t>(random_.Between(0, kRows));
    if (model_.rows.count(id) > 0) {
      EXPECT_OK(Delete(Ids({id})));
    } else {
      EXPECT_OK(Upsert(PlainRows({id}, {static_cast<float>(i)})));
    }
  }
  going_on = false;
  compactor.join();
  ExpectModel();
}

}  // namespace
}  // namespace nearfield::testing
