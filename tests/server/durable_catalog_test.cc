// Tests of aliases and snapshots of a catalog that stores its collections.
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/status_macros.h"
#include "server/collections/snapshots.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/durable_rows.h"
#include "tests/server/store/older_catalog.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

class DurableCatalogTest : public DurableCatalogFixture {
 protected:
  SnapshotPlace Place() const {
    return {.store = catalog_->store(), .dir = dir_ / "snapshots", .snapshots_max = 3};
  }
  const uint64_t seed_ = testing::TestSeed();
};

TEST_F(DurableCatalogTest, AliasesAreThereAgainAfterARestart) {
  Upload(Make("a"), 0, 10, seed_);
  Make("b");
  ASSERT_OK(catalog_->SetAlias("live", "a"));
  ASSERT_OK(catalog_->SetAlias("next", "b"));
  ASSERT_OK(catalog_->SetAlias("gone", "b"));
  ASSERT_OK(catalog_->SetAlias("next", "a"));
  ASSERT_OK(catalog_->DropAlias("gone"));
  Open();
  EXPECT_EQ((*catalog_->Find("live"))->name, "a");
  EXPECT_EQ(*catalog_->Find("next"), *catalog_->Find("a"));
  EXPECT_THAT(catalog_->Find("gone"), StatusIs(kNotFound));
  EXPECT_THAT(catalog_->Create("live", {.dim = kDim}), StatusIs(kAlreadyExists));
  ASSERT_OK(catalog_->Drop("a"));
  Open();
  EXPECT_THAT(catalog_->ListAliases(), IsEmpty());
}

// Earlier versions could keep a bf16 copy of the rows. Such a collection loads with int8 codes.
TEST_F(DurableCatalogTest, ACollectionOfTheRemovedBf16ScanIsSearchedByInt8Codes) {
  Upload(*catalog_->Create("a", {.dim = kDim, .scan = ScanChoice::kRows}), 0, 1000, seed_);
  const std::string before = Answer(**catalog_->Find("a"));
  catalog_ = nullptr;
  ASSERT_OK(store::SetStoredScan(dir_ / "data", store::kStoredScanBf16));
  Open();
  const auto named = *catalog_->Find("a");
  ASSERT_OK(named->load_status);
  EXPECT_EQ(named->collection->spec().scan, ScanChoice::kInt8);
  EXPECT_EQ(named->collection->Stats().scan, ScanPrecision::kInt8);
  EXPECT_EQ(Answer(*named), before);
  const std::vector<float> values(kDim, 0.5f);
  Query query;
  query.vector = values;
  query.k = 10;
  ASSERT_OK_AND_ASSIGN(const auto result,
                       engine_->Search(*named->collection, {.queries = {query}}));
  EXPECT_EQ(result.cost.precision, ScanPrecision::kInt8);
  ASSERT_OK_AND_ASSIGN(
      const auto verdict,
      engine_->Verify(*named->collection,
                      {.query = query, .neighbors = result.queries.front(), .epoch = result.epoch},
                      nullptr));
  EXPECT_TRUE(verdict.equal) << verdict.explanation;
}

// Rows on the host need codes, which some GPUs cannot scan in large dimensions. The other
// collections are served.
TEST_F(DurableCatalogTest, ACollectionThatTheDeviceRefusesIsListedWithItsError) {
  Upload(*catalog_->Create("host", {.dim = kDim, .rows = RowPlacement::kHost}), 0, 10, seed_);
  Upload(Make("rows"), 0, 10, seed_);
  catalog_ = nullptr;
  testing::FakeEngine lesser = testing::MakeFakeEngine({.device = {.scan_dim_max = kDim - 1}});
  ASSERT_OK_AND_ASSIGN(auto kept, store::Store::Open({.dir = dir_ / "data"}));
  Catalog catalog(Catalog::Base{.engine = lesser.engine.get(), .store = std::move(kept)},
                  /*collections_max=*/16);
  ASSERT_OK(catalog.Load([](const Catalog::LoadProgress&) {}, nullptr));
  EXPECT_THAT(catalog.Find("host"), FailsWith(kFailedPrecondition, "dim = "));
  EXPECT_EQ((*catalog.Find("rows"))->collection->Stats().rows_count, 10);
}

// A lost device: each of three has 4 MiB.
TEST_F(DurableCatalogTest, ARestartWithFewerDevicesServesWhatFitsAndNamesTheRest) {
  const auto open_with = [this](int32_t devices) {
    cpu_devices_ = devices;
    memory_bytes_ = devices * (int64_t{4} << 20);
    Open();
  };
  open_with(3);
  Upload(*catalog_->Create("spread", {.dim = kDim, .devices = 3}), 0, 5000, seed_);
  const auto large = Make("large");
  for (uint64_t part = 0; part < 7; ++part) {
    Upload(large, 10'000 * part, 10'000 * (part + 1), seed_ + part);
  }
  const std::string spread = Answer(**catalog_->Find("spread"));
  const std::string all = Answer(*large);
  open_with(1);
  EXPECT_EQ(Answer(**catalog_->Find("spread")), spread);
  EXPECT_EQ((*catalog_->Find("spread"))->collection->spec().devices, 3);
  EXPECT_THAT(catalog_->Find("large"),
              FailsWith(kFailedPrecondition, "cannot be loaded", "bytes of row memory"));
  open_with(2);
  EXPECT_EQ(Answer(**catalog_->Find("spread")), spread);
  open_with(3);
  EXPECT_EQ(Answer(**catalog_->Find("spread")), spread);
  EXPECT_EQ(Answer(**catalog_->Find("large")), all);
}

// If a token were resumed with another mode, the commit would replace other rows than its first
// stream declared.
TEST(CheckTokenModeTest, ATokenIsOfOneMode) {
  const store::UploadInfo known = {.mode = UploadMode::kUpsert};
  EXPECT_OK(CheckTokenMode(UploadMode::kUpsert, known));
  EXPECT_THAT(CheckTokenMode(UploadMode::kReplace, known),
              FailsWith(kFailedPrecondition, "begin.upload_token"));
}

TEST_F(DurableCatalogTest, AReplacementOfNothingByNothingIsCommitted) {
  const auto named = Make("a");
  const BeginUploadRequest request = {.reservation = {.rows_max = 1, .mode = UploadMode::kReplace},
                                      .token = "t",
                                      .check_caller = nullptr};
  ASSERT_OK_AND_ASSIGN(auto upload, CollectionUpload::Begin(named, request));
  ASSERT_OK_AND_ASSIGN(const auto result, upload->Commit());
  EXPECT_EQ(result.epoch, 0u);
  EXPECT_EQ(named->store->GetUpload({.collection_id = named->store_id, .token = "t"})->state,
            store::UploadState::kCommitted);
}

TEST_F(DurableCatalogTest, AnUploadIsNotReadAgainForNobody) {
  const auto named = Make("a");
  BeginUploadRequest request = {
      .reservation = {.rows_max = 2}, .token = "t", .check_caller = nullptr};
  const std::vector<uint8_t> rows(kDim * sizeof(float));
  const IdColumn ids = IdColumn::OfNumbers({1});
  {
    ASSERT_OK_AND_ASSIGN(auto upload, CollectionUpload::Begin(named, request));
    ASSERT_OK(upload->Append({.ids = &ids, .rows = rows}, {.rows_count = 1}));
  }
  request.check_caller = [] { return absl::CancelledError("gone"); };
  EXPECT_THAT(CollectionUpload::Begin(named, request), StatusIs(kCancelled));
  request.check_caller = nullptr;
  ASSERT_OK_AND_ASSIGN(auto upload, CollectionUpload::Begin(named, request));
  EXPECT_EQ(upload->place().rows_count, 1);
  EXPECT_EQ(upload->Commit()->rows_count, 1);
}

// Rows from several uploads, each within the maximum memory of one upload.
class DurableCatalogUploadsTest : public DurableCatalogTest {
 protected:
  static constexpr int64_t kRows = 50'000;

  DurableCatalogUploadsTest() { attribute_memory_bytes_ = 4 << 20; }

  std::shared_ptr<NamedCollection> MakeNamed() {
    AttributeSchema schema =
        *AttributeSchema::Create({{.name = "third", .type = AttributeType::kBool}}, {});
    return *catalog_->Create("a", {.dim = kDim, .id_type = IdType::kString}, std::move(schema));
  }

  // Uploads rows of which every third one is marked.
  static absl::Status UploadNamed(const std::shared_ptr<NamedCollection>& named, int64_t first,
                                  int64_t rows_count) {
    IdColumn ids(IdType::kString);
    AttributeBlock attributes = EmptyBlock(*named->attributes->SchemaAt());
    for (int64_t row = first; row < first + rows_count; ++row) {
      ids.AppendString("row " + std::to_string(row));
      attributes.columns[0].present.push_back(true);
      attributes.columns[0].values.AppendBool(row % 3 == 0);
    }
    attributes.rows_count = rows_count;
    const std::vector<uint8_t> rows(static_cast<size_t>(rows_count * kDim) * sizeof(float));
    ABSL_ASSIGN_OR_RETURN(
        auto upload, CollectionUpload::Begin(named, {.reservation = {.rows_max = rows_count}}));
    ABSL_RETURN_IF_ERROR(upload->Append({.ids = &ids, .rows = rows}, attributes));
    return upload->Commit().status();
  }

  static int64_t CountThird(const NamedCollection& named) {
    const Filter marked(Compare("third", Comparison::kEqual, Bools({true})),
                        *named.attributes->SchemaAt());
    const auto chosen = named.attributes->Choose(*named.collection, marked, nullptr, Never);
    EXPECT_OK(chosen);
    const auto count = named.collection->CountRows(chosen->at.get(), *chosen->rows);
    EXPECT_OK(count);
    return *count;
  }
};

TEST_F(DurableCatalogUploadsTest, WhatWasServedIsLoadedWithTheSameMemory) {
  const auto named = MakeNamed();
  constexpr int64_t kUploads = 6;
  for (int64_t i = 0; i < kUploads; ++i) ASSERT_OK(UploadNamed(named, i * kRows, kRows));
  // Together in one upload they exceed the memory for ids, and that for attributes.
  EXPECT_THAT(UploadNamed(named, kUploads * kRows, kUploads * kRows),
              FailsWith(kResourceExhausted, "host memory"));
  EXPECT_THAT(UploadNamed(named, kUploads * kRows, 2 * kRows),
              FailsWith(kResourceExhausted, "attribute_memory_bytes"));
  const std::string before = Answer(*named);
  Open();
  const auto again = *catalog_->Find("a");
  ASSERT_OK(again->load_status);
  EXPECT_EQ(again->collection->Stats().rows_count, kUploads * kRows);
  EXPECT_EQ(Answer(*again), before);
  EXPECT_EQ(CountThird(*again), kUploads * kRows / 3);
  ASSERT_OK(UploadNamed(again, kUploads * kRows, kRows / 10)) << "there is room for more";
}

TEST_F(DurableCatalogTest, SnapshotsAreMadeListedAndRestored) {
  const auto named = Make("a");
  Upload(named, 0, 300, seed_);
  ASSERT_OK(catalog_->SetAlias("live", "a"));
  EXPECT_THAT(ListSnapshots(Place()), IsOkAndHolds(IsEmpty()));
  ASSERT_OK_AND_ASSIGN(const auto made, CreateSnapshot(Place(), "monday", {.cancelled = Never}));
  EXPECT_EQ(made.name, "monday");
  EXPECT_EQ(made.files, 2);
  EXPECT_GT(made.bytes, 300 * kDim * 4);
  EXPECT_OK(made.state);
  const std::string then = Answer(*named);
  Delete(*named, 0, 100);
  ASSERT_OK(CreateSnapshot(Place(), "tuesday", {.cancelled = Never}));
  ASSERT_OK_AND_ASSIGN(const auto listed, ListSnapshots(Place()));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "monday");
  EXPECT_EQ(listed[1].name, "tuesday");
  catalog_ = nullptr;
  std::filesystem::rename(dir_ / "data", dir_ / "old");
  ASSERT_OK(store::Store::Restore(dir_ / "snapshots/monday", dir_ / "data"));
  Open();
  EXPECT_EQ(Answer(**catalog_->Find("live")), then);
}

TEST_F(DurableCatalogTest, ASnapshotIsRefusedBeforeAnythingIsWritten) {
  Make("a");
  for (const std::string name :
       {"", "..", "a/b", "/abs", "../a", "a.partial", "a.partial.catalog", "a b", "-a"}) {
    EXPECT_THAT(CreateSnapshot(Place(), name, {.cancelled = Never}),
                FailsWith(kInvalidArgument, "name: "))
        << name;
  }
  SnapshotPlace nowhere = Place();
  nowhere.dir = "";
  EXPECT_THAT(CreateSnapshot(nowhere, "a", {.cancelled = Never}),
              FailsWith(kFailedPrecondition, "snapshot_dir"));
  EXPECT_THAT(ListSnapshots(nowhere), FailsWith(kFailedPrecondition, "snapshot_dir"));
  SnapshotPlace nothing = Place();
  nothing.store = nullptr;
  EXPECT_THAT(CreateSnapshot(nothing, "a", {.cancelled = Never}),
              FailsWith(kFailedPrecondition, "data_dir"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "snapshots"));
  for (const std::string name : {"a", "b", "c"})
    ASSERT_OK(CreateSnapshot(Place(), name, {.cancelled = Never}));
  EXPECT_THAT(CreateSnapshot(Place(), "b", {.cancelled = Never}),
              FailsWith(kAlreadyExists, "\"b\""));
  EXPECT_THAT(CreateSnapshot(Place(), "d", {.cancelled = Never}),
              FailsWith(kResourceExhausted, "snapshots_max is 3"));
}

TEST_F(DurableCatalogTest, ACancelledSnapshotLeavesNothingBehind) {
  Upload(Make("a"), 0, 300, seed_);
  EXPECT_THAT(CreateSnapshot(Place(), "a", {.cancelled = [] { return true; }}),
              StatusIs(kCancelled));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "snapshots"));
  EXPECT_OK(CreateSnapshot(Place(), "a", {.cancelled = Never}));
}

TEST_F(DurableCatalogTest, WhatIsNoSnapshotIsNotListedAndADamagedListOfFilesIs) {
  Make("a");
  ASSERT_OK(CreateSnapshot(Place(), "good", {.cancelled = Never}));
  std::filesystem::create_directories(dir_ / "snapshots/empty");
  std::ofstream(dir_ / "snapshots/file") << "text";
  std::filesystem::copy(dir_ / "snapshots/good", dir_ / "snapshots/under-way.partial");
  std::filesystem::copy(dir_ / "snapshots/good", dir_ / "snapshots/hurt");
  std::ofstream(dir_ / "snapshots/hurt/MANIFEST", std::ios::app) << "more";
  ASSERT_OK_AND_ASSIGN(const auto listed, ListSnapshots(Place()));
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].name, "good");
  EXPECT_OK(listed[0].state);
  EXPECT_EQ(listed[1].name, "hurt");
  EXPECT_THAT(listed[1].state, StatusIs(kDataLoss));
}

}  // namespace
}  // namespace nearfield::server
