// Tests collections, commits and deletions: the store returns its rows bit for bit, even after a
// restart.
#include "server/store/store.h"

#include <string>

#include "server/store/catalog_rows.h"
#include "tests/server/store/model_store.h"
#include "tests/server/store/older_catalog.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::store {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  Store& store() { return tested_.store(); }
  absl::Status Create(const std::string& name, const CollectionSpec& spec = {.dim = 1}) {
    return store().CreateCollection(name, spec, "").status();
  }

  const TempDir dir_;
  ModelStore tested_{dir_ / "data"};
};

TEST_F(StoreTest, WhatIsCommittedIsThereAfterARestart) {
  tested_.Create("a", 1);
  tested_.Create("b", 2);
  for (int64_t number = 1; number <= 20; ++number) {
    ASSERT_OK(tested_.Upload(number % 3 == 0 ? "b" : "a", number));
    if (number % 4 == 0) {
      ASSERT_OK(tested_.Delete("a", number));
    }
    ASSERT_TRUE(tested_.Same()) << number;
  }
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
  EXPECT_OK(store().Verify());
}

TEST_F(StoreTest, RandomCommitsAndRestartsGiveTheModelsRows) {
  testing::Random random(testing::TestSeed());
  tested_.Create("a", random.Between(1, 1 << 20));
  for (int64_t number = 1; number <= 60; ++number) {
    const int64_t drawn = random.Between(0, 1 << 16) * 64 + number;
    if (random.OneIn(3) && !tested_.model().collections.at("a").rows.empty()) {
      ASSERT_OK(tested_.Delete("a", drawn));
    } else {
      ASSERT_OK(tested_.Upload("a", drawn));
    }
    if (random.OneIn(5)) tested_.Reopen();
    ASSERT_TRUE(tested_.Same()) << number;
  }
  EXPECT_OK(store().Verify());
}

TEST_F(StoreTest, CollectionsKeepTheirFacts) {
  const CollectionSpec spec = {.dim = 7,
                               .metric = Metric::kCosine,
                               .row_type = RowType::kBFloat16,
                               .id_type = IdType::kString,
                               .scan = ScanChoice::kRows,
                               .rows = RowPlacement::kHost};
  const std::string schema("any\0bytes\xff", 10);
  ASSERT_OK_AND_ASSIGN(const auto id, store().CreateCollection("name", spec, schema));
  ASSERT_OK(store().SetAlias("second", id));
  ASSERT_OK(store().SetAlias("another", id));
  tested_.Reopen();
  ASSERT_EQ(store().Collections().size(), 1u);
  const StoredCollection found = store().Collections().front();
  EXPECT_EQ(found.id, id);
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

TEST_F(StoreTest, EveryScanChoiceIsKept) {
  const std::vector<ScanChoice> scans = {ScanChoice::kAuto, ScanChoice::kInt8, ScanChoice::kRows,
                                         ScanChoice::kInt16};
  for (size_t i = 0; i < scans.size(); ++i) {
    ASSERT_OK(Create("c" + std::to_string(i), {.dim = 7, .scan = scans[i]}));
  }
  tested_.Reopen();
  std::vector<ScanChoice> found;
  for (const StoredCollection& collection : store().Collections()) {
    EXPECT_FALSE(collection.scan_removed);
    found.push_back(collection.spec.scan);
  }
  EXPECT_EQ(found, scans);
}

// Directories of earlier versions have these numbers, which are not those of ScanChoice.
TEST_F(StoreTest, TheStoredNumbersOfScanChoicesAreFrozen) {
  const auto stored = [](ScanChoice scan) {
    CollectionRow row;
    row.spec.scan = scan;
    return absl::get<int64_t>(ValuesOf(row)[6]);
  };
  EXPECT_EQ(stored(ScanChoice::kAuto), 1);
  EXPECT_EQ(stored(ScanChoice::kInt8), 2);
  EXPECT_EQ(stored(ScanChoice::kRows), 3);
  EXPECT_EQ(stored(ScanChoice::kInt16), 5);
}

// Earlier versions stored the number 4 for scans of a bf16 copy of the rows. Such collections load
// with int8 codes, and the digests of their rows stay correct after later commits.
TEST_F(StoreTest, ACollectionOfTheRemovedBf16ScanIsOneOfInt8Codes) {
  tested_.Create("a", 1);
  ASSERT_OK(tested_.Upload("a", 1));
  tested_.Close();
  ASSERT_OK(SetStoredScan(dir_ / "data", kStoredScanBf16));
  tested_.model().collections.at("a").spec.scan = ScanChoice::kInt8;
  for (int64_t number = 2; number < 5; ++number) {
    tested_.Reopen();
    const StoredCollection found = store().Collections().front();
    EXPECT_EQ(found.spec.scan, ScanChoice::kInt8);
    EXPECT_TRUE(found.scan_removed);
    ASSERT_OK(tested_.Upload("a", number));
    ASSERT_TRUE(tested_.Same());
    ASSERT_OK(store().Verify());
  }
}

TEST_F(StoreTest, AnUnknownScanNumberIsDamage) {
  tested_.Create("a", 1);
  tested_.Close();
  constexpr int64_t kUnknown = 6;
  ASSERT_OK(SetStoredScan(dir_ / "data", kUnknown));
  EXPECT_THAT(Store::Open(tested_.Options()), FailsWith(kDataLoss, "collections"));
}

TEST_F(StoreTest, NamesAndAliasesAreOneSpace) {
  const int64_t a = *store().CreateCollection("a", {.dim = 1}, "");
  const int64_t b = *store().CreateCollection("b", {.dim = 1}, "");
  EXPECT_THAT(Create("a"), StatusIs(kAlreadyExists));
  ASSERT_OK(store().SetAlias("x", a));
  EXPECT_THAT(Create("x"), StatusIs(kAlreadyExists));
  EXPECT_THAT(store().SetAlias("b", a), StatusIs(kAlreadyExists));
  ASSERT_OK(store().SetAlias("x", b));  // moves the alias
  EXPECT_THAT(store().Collections()[1].aliases, ElementsAre("x"));
  EXPECT_TRUE(store().Collections()[0].aliases.empty());
  ASSERT_OK(store().DropAlias("x"));
  EXPECT_THAT(store().DropAlias("x"), StatusIs(kNotFound));
  ASSERT_OK(store().DropCollection(b));
  EXPECT_THAT(store().DropCollection(b), StatusIs(kNotFound));
  EXPECT_THAT(store().SetAlias("x", b), StatusIs(kNotFound));
  EXPECT_OK(Create("b"));
}

TEST_F(StoreTest, RefusesWhatCannotBe) {
  const auto invalid = kInvalidArgument;
  EXPECT_THAT(Create(""), FailsWith(invalid, "name"));
  EXPECT_THAT(Create("a", {.dim = 0}), FailsWith(invalid, "dim = 0"));
  EXPECT_THAT(Create("a", {.dim = kDimMax + 1}), StatusIs(invalid));
  tested_.Create("a", 1);
  ASSERT_OK(tested_.Upload("a", 1));
  const int64_t id = tested_.IdOf("a");
  const auto& collection = tested_.model().collections.at("a");
  const IdColumn ids = fault::DeletedBy(collection, 1);
  EXPECT_THAT(store().CommitDelete(id, collection.epoch, ids),
              FailsWith(kFailedPrecondition, "epoch"));
  EXPECT_THAT(store().CommitDelete(id, collection.epoch + 2, ids), StatusIs(kFailedPrecondition));
  EXPECT_THAT(store().CommitDelete(id, collection.epoch + 1, IdColumn(ids.type())),
              FailsWith(invalid, "ids = 0"));
  EXPECT_THAT(store().CommitDelete(id + 100, 1, ids), StatusIs(kNotFound));
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreTest, AFatalErrorEndsEverything) {
  std::string told;
  StoreOptions options = {.dir = dir_ / "data"};
  options.on_fatal = [&told](const absl::Status& status) { told = status.ToString(); };
  tested_.Reopen(options);
  const int64_t id = *store().CreateCollection("a", {.dim = 1}, "");
  // The directory of the open store is removed, so its next file cannot be made.
  ASSERT_EQ(::system(("rm -r " + dir_.path() + "/data").c_str()), 0);  // NOLINT
  EXPECT_THAT(store().BeginUpload(id, {}), StatusIs(kUnavailable));
  EXPECT_THAT(told, HasSubstr("data"));
  EXPECT_THAT(Create("b"), StatusIs(kUnavailable));
  EXPECT_THAT(store().Verify(), StatusIs(kUnavailable));
  tested_.Close();  // it calls on_fatal
}

}  // namespace
}  // namespace nearfield::store
