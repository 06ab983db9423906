// Tests collections, commits and deletions: the store returns its rows bit for bit, also after a
// restart.
#include "server/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/store/catalogue_rows.h"
#include "tests/server/store/model_store.h"
#include "tests/server/store/older_catalogue.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::store {
namespace {

using ::absl_testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StoreTest, WhatIsCommittedIsThereAfterARestart) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  tested.Create("a", 1);
  tested.Create("b", 2);
  for (int64_t number = 1; number <= 20; ++number) {
    ASSERT_OK(tested.Upload(number % 3 == 0 ? "b" : "a", number));
    if (number % 4 == 0) {
      ASSERT_OK(tested.Delete("a", number));
    }
    ASSERT_TRUE(tested.Same()) << number;
  }
  tested.Reopen();
  EXPECT_TRUE(tested.Same());
  EXPECT_OK(tested.store().Verify());
}

TEST(StoreTest, RandomCommitsAndRestartsGiveTheModelsRows) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  testing::Random random(testing::TestSeed());
  tested.Create("a", random.Between(1, 1 << 20));
  for (int64_t number = 1; number <= 60; ++number) {
    const int64_t drawn = random.Between(0, 1 << 16) * 64 + number;
    if (random.OneIn(3) && !tested.model().collections.at("a").rows.empty()) {
      ASSERT_OK(tested.Delete("a", drawn));
    } else {
      ASSERT_OK(tested.Upload("a", drawn));
    }
    if (random.OneIn(5)) tested.Reopen();
    ASSERT_TRUE(tested.Same()) << number;
  }
  EXPECT_OK(tested.store().Verify());
}

TEST(StoreTest, CollectionsKeepTheirFacts) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const CollectionSpec spec = {.dim = 7,
                               .metric = Metric::kCosine,
                               .row_type = RowType::kBFloat16,
                               .id_type = IdType::kString,
                               .scan = ScanChoice::kRows,
                               .rows = RowPlacement::kHost};
  const std::string schema("any\0bytes\xff", 10);
  const auto id = tested.store().CreateCollection("name", spec, schema);
  ASSERT_OK(id);
  ASSERT_OK(tested.store().SetAlias("second", *id));
  ASSERT_OK(tested.store().SetAlias("another", *id));
  tested.Reopen();
  ASSERT_EQ(tested.store().Collections().size(), 1u);
  const StoredCollection found = tested.store().Collections().front();
  EXPECT_EQ(found.id, *id);
  EXPECT_EQ(found.name, "name");
  EXPECT_EQ(found.attribute_schema, schema);
  EXPECT_THAT(found.aliases, ElementsAre("another", "second"));
  EXPECT_EQ(found.epoch, 0u);
  EXPECT_EQ(found.rows_count, 0);
  EXPECT_EQ(found.spec.dim, 7);
  EXPECT_EQ(found.spec.metric, Metric::kCosine);
  EXPECT_EQ(found.spec.row_type, RowType::kBFloat16);
  EXPECT_EQ(found.spec.id_type, IdType::kString);
  EXPECT_EQ(found.spec.scan, ScanChoice::kRows);
  EXPECT_EQ(found.spec.rows, RowPlacement::kHost);
}

TEST(StoreTest, EveryScanChoiceIsKept) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  const std::vector<ScanChoice> scans = {ScanChoice::kAuto, ScanChoice::kInt8, ScanChoice::kRows};
  for (size_t i = 0; i < scans.size(); ++i) {
    ASSERT_OK(
        tested.store().CreateCollection("c" + std::to_string(i), {.dim = 7, .scan = scans[i]}, ""));
  }
  tested.Reopen();
  std::vector<ScanChoice> found;
  for (const StoredCollection& collection : tested.store().Collections()) {
    EXPECT_FALSE(collection.scan_removed);
    found.push_back(collection.spec.scan);
  }
  EXPECT_EQ(found, scans);
}

// Directories of earlier versions have these numbers, which are not those of ScanChoice.
TEST(StoreTest, TheStoredNumbersOfScanChoicesAreFrozen) {
  const auto stored = [](ScanChoice scan) {
    CollectionRow row;
    row.spec.scan = scan;
    return absl::get<int64_t>(ValuesOf(row)[6]);
  };
  EXPECT_EQ(stored(ScanChoice::kAuto), 1);
  EXPECT_EQ(stored(ScanChoice::kInt8), 2);
  EXPECT_EQ(stored(ScanChoice::kRows), 3);
}

// Earlier versions stored the number 4 for scans of a bf16 copy of the rows. Such collections load
// with int8 codes, and the digests of their rows stay correct after later commits.
TEST(StoreTest, ACollectionOfTheRemovedBf16ScanIsOneOfInt8Codes) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  tested.Create("a", 1);
  ASSERT_OK(tested.Upload("a", 1));
  tested.Close();
  ASSERT_OK(SetStoredScan(dir / "data", kStoredScanBf16));
  tested.model().collections.at("a").spec.scan = ScanChoice::kInt8;
  for (int64_t number = 2; number < 5; ++number) {
    tested.Reopen();
    const StoredCollection found = tested.store().Collections().front();
    EXPECT_EQ(found.spec.scan, ScanChoice::kInt8);
    EXPECT_TRUE(found.scan_removed);
    ASSERT_OK(tested.Upload("a", number));
    ASSERT_TRUE(tested.Same());
    ASSERT_OK(tested.store().Verify());
  }
}

TEST(StoreTest, AnUnknownScanNumberIsDamage) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  tested.Create("a", 1);
  tested.Close();
  ASSERT_OK(SetStoredScan(dir / "data", kStoredScanBf16 + 1));
  EXPECT_THAT(Store::Open(tested.Options()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("collections")));
}

TEST(StoreTest, NamesAndAliasesAreOneSpace) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  Store& store = tested.store();
  const int64_t a = *store.CreateCollection("a", {.dim = 1}, "");
  const int64_t b = *store.CreateCollection("b", {.dim = 1}, "");
  EXPECT_THAT(store.CreateCollection("a", {.dim = 1}, ""),
              StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK(store.SetAlias("x", a));
  EXPECT_THAT(store.CreateCollection("x", {.dim = 1}, ""),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(store.SetAlias("b", a), StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK(store.SetAlias("x", b));  // moves the alias
  EXPECT_THAT(store.Collections()[1].aliases, ElementsAre("x"));
  EXPECT_TRUE(store.Collections()[0].aliases.empty());
  ASSERT_OK(store.DropAlias("x"));
  EXPECT_THAT(store.DropAlias("x"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK(store.DropCollection(b));
  EXPECT_THAT(store.DropCollection(b), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store.SetAlias("x", b), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(store.CreateCollection("b", {.dim = 1}, ""));
}

TEST(StoreTest, RefusesWhatCannotBe) {
  const TempDir dir;
  ModelStore tested(dir / "data");
  Store& store = tested.store();
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(store.CreateCollection("", {.dim = 1}, ""), StatusIs(invalid, HasSubstr("name")));
  EXPECT_THAT(store.CreateCollection("a", {.dim = 0}, ""), StatusIs(invalid, HasSubstr("dim = 0")));
  EXPECT_THAT(store.CreateCollection("a", {.dim = kDimMax + 1}, ""), StatusIs(invalid));
  tested.Create("a", 1);
  ASSERT_OK(tested.Upload("a", 1));
  const int64_t id = tested.IdOf("a");
  const auto& collection = tested.model().collections.at("a");
  const IdColumn ids = fault::DeletedBy(collection, 1);
  EXPECT_THAT(store.CommitDelete(id, collection.epoch, ids),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("epoch")));
  EXPECT_THAT(store.CommitDelete(id, collection.epoch + 2, ids),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store.CommitDelete(id, collection.epoch + 1, IdColumn(ids.type())),
              StatusIs(invalid, HasSubstr("ids = 0")));
  EXPECT_THAT(store.CommitDelete(id + 100, 1, ids), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(tested.Same());
}

TEST(StoreTest, AFatalErrorEndsEverything) {
  const TempDir dir;
  std::string told;
  StoreOptions options = {.dir = dir / "data"};
  options.on_fatal = [&told](const absl::Status& status) { told = status.ToString(); };
  const auto store = Store::Open(options);
  ASSERT_OK(store);
  const int64_t id = *(*store)->CreateCollection("a", {.dim = 1}, "");
  // The directory of the open store is removed, so its next file cannot be made.
  ASSERT_EQ(::system(("rm -r " + dir.path() + "/data").c_str()), 0);  // NOLINT
  EXPECT_THAT((*store)->BeginUpload(id, {}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(told, HasSubstr("data"));
  EXPECT_THAT((*store)->CreateCollection("b", {.dim = 1}, ""),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT((*store)->Verify(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace nearfield::store
