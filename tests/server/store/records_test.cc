// Tests of readers of patches: commits do not wait for them, and no patch that arrives meanwhile is
// lost. A commit in `cancelled` runs between two records, or pages: it would wait forever for a
// reader that holds the store's mutex.
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

class StoreRecordsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRecords = 10;

  void SetUp() override {
    tested_.Create("a", 1);
    for (int64_t number = 1; Expected().rows.size() < 50; ++number) {
      ASSERT_OK(tested_.Upload("a", number));
    }
    for (int64_t number = 1; number <= kRecords; ++number) ASSERT_OK(tested_.Update("a", number));
  }

  fault::ModelCollection& Expected() { return tested_.model().collections.at("a"); }
  int64_t id() { return tested_.IdOf("a"); }

  // Returns a function that makes an update in each of its first kRecords calls.
  std::function<bool()> UpdateBetween() {
    return [this] {
      if (updates_ == kRecords) return false;
      EXPECT_OK(tested_.Update("a", 100 + updates_++));
      return false;
    };
  }

  // Loads the rows and compares them with `expected`.
  void ExpectLoaded(const fault::ModelCollection& expected, const LoadOptions& options) {
    size_t rows = 0;
    const auto compare = [&](const StoredBlock& block) {
      for (int64_t i = 0; i < block.ids->size(); ++i, ++rows) {
        const fault::ModelRow& row = expected.rows.at(block.ids->at(i));
        EXPECT_EQ(block.attributes == nullptr ? "" : block.attributes->at(i), row.attributes);
        EXPECT_EQ(block.payloads == nullptr ? "" : block.payloads->at(i), row.payload);
      }
      return absl::OkStatus();
    };
    EXPECT_OK(tested_.store().Load(id(), compare, options));
    EXPECT_EQ(rows, expected.rows.size());
  }

  const TempDir dir_;
  ModelStore tested_{dir_ / "data"};
  int64_t updates_ = 0;
};

TEST_F(StoreRecordsTest, UpdatesCommitWhileALoadReadsPatches) {
  const fault::ModelCollection before = Expected();
  ExpectLoaded(before, {.cancelled = UpdateBetween()});
  EXPECT_EQ(updates_, kRecords);
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreRecordsTest, UpdatesCommitWhileACompactionReadsPatches) {
  CompactOptions options = AllSegments();
  options.cancelled = UpdateBetween();
  ASSERT_OK(tested_.store().Compact(id(), options));
  EXPECT_EQ(updates_, kRecords);
  EXPECT_TRUE(tested_.Same());
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
  // The new patches are the only ones.
  ASSERT_OK(tested_.store().Compact(id(), AllSegments()));
  EXPECT_TRUE(tested_.Same());
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreRecordsTest, ALoadWhosePatchesAreCompactedReadsTheNewState) {
  int64_t calls = 0;
  ExpectLoaded(Expected(), {.cancelled = [&] {
                 if (++calls == kRecords / 2) {
                   EXPECT_OK(tested_.store().Compact(id(), AllSegments()));
                 }
                 return false;
               }});
  EXPECT_GT(calls, kRecords / 2);
}

TEST_F(StoreRecordsTest, ACompactionOfADroppedCollectionStops) {
  CompactOptions options = AllSegments();
  options.cancelled = [this] {
    if (updates_++ == kRecords / 2) {
      EXPECT_OK(tested_.store().DropCollection(id()));
    }
    return false;
  };
  EXPECT_THAT(tested_.store().Compact(id(), options), StatusIs(kAborted));
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreRecordsTest, ReadingPatchesCanBeCancelled) {
  const auto cancel = [] { return true; };
  EXPECT_THAT(tested_.store().Load(id(), [](const StoredBlock&) { return absl::OkStatus(); },
                                   {.cancelled = cancel}),
              StatusIs(kCancelled));
  EXPECT_THAT(tested_.store().Compact(id(), {.cancelled = cancel}), StatusIs(kCancelled));
  EXPECT_OK(tested_.store().Compact(id(), {}));
}

// Only small records are joined: the others would be read and written again for little.
TEST_F(StoreRecordsTest, ManySmallPatchesAreJoinedWithoutTheLargeOnes) {
  fault::ModelCollection& collection = Expected();
  fault::ModelRow& row = collection.rows.begin()->second;
  IdColumn ids(collection.spec.id_type);
  ids.Append(collection.rows.begin()->first);
  const auto update = [&](const std::string& payload) {
    ASSERT_OK(tested_.store().CommitUpdates(
        id(), {{{.epoch = ++collection.epoch, .ids = &ids, .payloads = {&payload}}}}));
    row.payload = payload;
  };
  update(std::string(2 << 20, 'l'));
  const CompactOptions rarely = {.dead_share_max = 1e6, .small_segments_min = 1000};
  int64_t small = kRecords;
  for (; !tested_.store().CompactionDue(id(), rarely); ++small) update(std::to_string(small));
  ASSERT_GT(small, 1000);
  const int64_t before = tested_.store().DiskBytes(id());
  int64_t read = 0;
  CompactOptions options = rarely;
  options.cancelled = [&read] { return ++read < 0; };
  ASSERT_OK(tested_.store().Compact(id(), options));
  EXPECT_EQ(read, small) << "the large record was read";
  EXPECT_FALSE(tested_.store().CompactionDue(id(), rarely));
  EXPECT_GT(tested_.store().DiskBytes(id()), 2 << 20);
  EXPECT_LT(tested_.store().DiskBytes(id()), before);
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreRecordsTest, UpdatesCommitWhileASnapshotCopiesPatches) {
  fault::ModelCollection& collection = Expected();
  fault::ModelRow& row = collection.rows.begin()->second;
  IdColumn ids(collection.spec.id_type);
  ids.Append(collection.rows.begin()->first);
  for (int64_t i = 0; i < kRecords; ++i) {
    row.payload = std::string(1 << 20, static_cast<char>('a' + i));
    ASSERT_OK(tested_.store().CommitUpdates(
        id(), {{{.epoch = ++collection.epoch, .ids = &ids, .payloads = {&row.payload}}}}));
  }
  ASSERT_OK(tested_.store().Snapshot(dir_ / "snapshot", {.cancelled = UpdateBetween()}));
  EXPECT_EQ(updates_, kRecords);
  EXPECT_TRUE(tested_.Same());
  ASSERT_OK(Store::Restore(dir_ / "snapshot", dir_ / "restored"));
  ModelStore restored(dir_ / "restored");
  restored.model() = tested_.model();
  EXPECT_TRUE(restored.Same()) << "the snapshot has the updates that came before its last page";
  EXPECT_OK(restored.store().Verify());
}

TEST_F(StoreRecordsTest, ASnapshotHasNoBytesOfDroppedRows) {
  const std::string secret = "a value that nobody should read";
  fault::ModelCollection& collection = Expected();
  IdColumn ids(collection.spec.id_type);
  ids.Append(collection.rows.begin()->first);
  ASSERT_OK(tested_.store().CommitUpdates(
      id(), {{{.epoch = ++collection.epoch, .ids = &ids, .payloads = {&secret}}}}));
  ASSERT_OK(tested_.store().DropCollection(id()));
  ASSERT_OK(tested_.store().Snapshot(dir_ / "snapshot"));
  std::ifstream file(dir_ / "snapshot/catalog.db", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_GT(bytes.size(), 4096u);
  EXPECT_EQ(bytes.find(secret), std::string::npos);
}

}  // namespace
}  // namespace nearfield::store
