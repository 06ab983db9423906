// Tests compaction: the same rows in fewer bytes, also with concurrent changes.
#include <cerrno>

#include "absl/strings/match.h"
#include "server/store/store.h"
#include "tests/server/store/failing_calls.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::store {
namespace {

TEST(StoreCompactTest, RandomCommitsAndCompactionsGiveTheModelsRows) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  testing::Random random(testing::TestSeed());
  const int64_t id = tested.Create("a", random.Between(1, 1 << 20));
  for (int64_t number = 1; number <= 80; ++number) {
    const int64_t drawn = random.Between(0, 1 << 16) * 128 + number;
    if (random.OneIn(3) && !tested.model().collections.at("a").rows.empty()) {
      ASSERT_OK(tested.Delete("a", drawn));
    } else {
      ASSERT_OK(tested.Upload("a", drawn));
    }
    if (random.OneIn(4)) {
      CompactOptions options = {.small_bytes_max = random.OneIn(2) ? 0 : 20'000,
                                .small_segments_min = 3};
      options.bytes_max = random.OneIn(2) ? 10'000 : int64_t{1} << 30;
      if (random.OneIn(2)) options.block_bytes_max = random.Between(0, 2'000);
      // Delete and upload rows during the compaction.
      absl::Status nested;
      options.cancelled = [&] {
        if (nested.ok() && random.OneIn(6) && !tested.model().collections.at("a").rows.empty()) {
          nested = tested.Delete("a", random.Between(0, 1 << 20));
        }
        return false;
      };
      const auto result = tested.store().Compact(id, options);
      ASSERT_OK(nested);
      ASSERT_OK(result);
    }
    if (random.OneIn(10)) tested.Reopen();
    ASSERT_TRUE(tested.Same()) << number;
  }
  EXPECT_OK(tested.store().Verify());
}

TEST(StoreCompactTest, OneCompactionOfAllLeavesOnlyLiveRows) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const int64_t id = tested.Create("a", 1);
  for (int64_t number = 1; number <= 10; ++number) {
    ASSERT_OK(tested.Upload("a", number));
    ASSERT_OK(tested.Delete("a", number));
  }
  EXPECT_TRUE(tested.store().CompactionDue(id, {}));
  const auto result = tested.store().Compact(id, AllSegments());
  ASSERT_OK(result);
  const StoredCollection after = tested.store().Collections().front();
  EXPECT_EQ(after.segments_count, 1);
  EXPECT_EQ(result->segments_after, 1);
  EXPECT_EQ(after.rows_stored, after.rows_count);
  EXPECT_EQ(after.bytes, result->bytes_after);
  EXPECT_LT(result->bytes_after, result->bytes_before);
  EXPECT_GT(result->ids_dropped, 0);
  EXPECT_TRUE(tested.Same());
  EXPECT_FALSE(tested.store().CompactionDue(id, {}));
  tested.Reopen();
  EXPECT_TRUE(tested.Same());
  EXPECT_OK(tested.store().Verify());
}

TEST(StoreCompactTest, AnEmptiedCollectionGivesItsSegmentsBack) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const int64_t id = tested.Create("a", 1);
  ASSERT_OK(tested.Upload("a", 1));
  while (!tested.model().collections.at("a").rows.empty()) {
    ASSERT_OK(tested.Delete("a", static_cast<int64_t>(tested.model().collections.at("a").epoch)));
  }
  ASSERT_OK(tested.store().Compact(id, {}));
  EXPECT_EQ(tested.store().Collections().front().segments_count, 0);
  EXPECT_TRUE(tested.Same());
}

TEST(StoreCompactTest, NothingToDoChangesNothing) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const int64_t id = tested.Create("a", 1);
  ASSERT_OK(tested.Upload("a", 1));
  EXPECT_FALSE(tested.store().CompactionDue(id, {}));
  const auto result = tested.store().Compact(id, {});
  ASSERT_OK(result);
  EXPECT_EQ(result->segments_after, result->segments_before);
  EXPECT_EQ(result->bytes_after, result->bytes_before);
}

TEST(StoreCompactTest, AReplaceOrDropMeanwhileAbortsIt) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const int64_t id = tested.Create("a", 1);
  for (int64_t number = 1; number <= 4; ++number) ASSERT_OK(tested.Upload("a", number));
  CompactOptions options = AllSegments();
  bool dropped = false;
  options.cancelled = [&] {
    if (!dropped) {
      EXPECT_OK(tested.store().DropCollection(id));
    }
    dropped = true;
    return false;
  };
  EXPECT_THAT(tested.store().Compact(id, options), StatusIs(kAborted));
  EXPECT_THAT(tested.store().Compact(id, {}), StatusIs(kNotFound));
  tested.model().collections.clear();
  EXPECT_TRUE(tested.Same());
  EXPECT_OK(tested.store().Verify());
}

// Regression: a compaction left no free space for the records of deletes.
TEST(StoreCompactTest, ItLeavesTheFreeBytesThatDeletesNeed) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const int64_t id = tested.Create("a", 1);
  for (int64_t number = 1; number <= 4; ++number) ASSERT_OK(tested.Upload("a", number));
  tested.Close();
  StoreOptions options = tested.Options();
  options.free_bytes_min = int64_t{1} << 60;
  {
    const auto full = Store::Open(options);
    ASSERT_OK(full);
    EXPECT_THAT((*full)->Compact(id, AllSegments()),
                StatusIs(kResourceExhausted, ::testing::HasSubstr("for deletes")));
    EXPECT_OK((*full)->Verify());
  }
  tested.Reopen();
  EXPECT_TRUE(tested.Same());
}

// Regression: the file of the rows was removed, although the catalog named it. Only a process that
// goes on after on_fatal shows it.
TEST(StoreCompactTest, AFailureOfTheCatalogLosesNoRow) {
  absl::Status fatal = absl::UnknownError("");
  for (int64_t at = 1; !fatal.ok(); ++at) {
    fatal = absl::OkStatus();
    const TempDir dir;
    ModelStore tested(dir / "data");
    const int64_t id = tested.Create("a", 1);
    for (int64_t number = 1; number <= 4; ++number) ASSERT_OK(tested.Upload("a", number));
    StoreOptions options = tested.Options();
    options.log_pages_max = 1;
    options.on_fatal = [&fatal](const absl::Status& status) { fatal = status; };
    tested.Reopen(options);
    {
      int64_t calls = 0;
      const FailingCalls failing([&](const FileCall& call) {
        const bool changes =
            call.kind == FileCall::Kind::kWrite || call.kind == FileCall::Kind::kSync;
        return changes && !absl::EndsWith(call.path, ".seg") && ++calls == at ? EIO : 0;
      });
      const absl::Status compacted = tested.store().Compact(id, AllSegments()).status();
      EXPECT_EQ(compacted.ok(), fatal.ok()) << at;
    }
    tested.Reopen();
    EXPECT_TRUE(tested.Same()) << at;
    EXPECT_OK(tested.store().Verify()) << at;
    EXPECT_GT(fatal.ok() ? at : 5, 4);  // a log, a checkpoint and the number of commits
  }
}

TEST(StoreCompactTest, CancelledItLeavesNothing) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const int64_t id = tested.Create("a", 1);
  for (int64_t number = 1; number <= 4; ++number) ASSERT_OK(tested.Upload("a", number));
  CompactOptions options = AllSegments();
  int64_t asked = 0;
  options.cancelled = [&asked] { return ++asked > 2; };
  EXPECT_THAT(tested.store().Compact(id, options), StatusIs(kCancelled));
  EXPECT_TRUE(tested.Same());
  EXPECT_OK(tested.store().Verify());
}

}  // namespace
}  // namespace nearfield::store
