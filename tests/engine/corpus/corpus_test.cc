// Tests one collection: its spec, commits, deletions, rows by id, and the release of memory.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

std::vector<uint64_t> Numbers(const IdColumn& ids) {
  std::vector<uint64_t> numbers;
  for (int64_t i = 0; i < ids.size(); ++i) numbers.push_back(ids.number(i));
  return numbers;
}

class CorpusTest : public ::testing::Test {
 protected:
  // Returns the ids that a search finds, best first.
  std::vector<uint64_t> Found() {
    const float query[2] = {1, 0};
    const auto answer = SearchOne(*fake_.engine, *collection_, query, 1000);
    EXPECT_OK(answer);
    return Numbers(answer->ids);
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
};

TEST_F(CorpusTest, SpecsOutOfRangeAreNamed) {
  for (const int32_t dim : {0, -1, kDimMax + 1}) {
    EXPECT_THAT(fake_.engine->CreateCollection({.dim = dim}),
                StatusIs(kInvalidArgument,
                         AllOf(HasSubstr("dim = " + std::to_string(dim)), HasSubstr("8192"))));
  }
  EXPECT_THAT(fake_.engine->CreateCollection({.dim = 1, .metric = static_cast<Metric>(9)}),
              StatusIs(kInvalidArgument, HasSubstr("metric = 9")));
  EXPECT_THAT(fake_.engine->CreateCollection({.dim = 1, .row_type = static_cast<RowType>(0)}),
              StatusIs(kInvalidArgument, HasSubstr("row_type = 0")));
  EXPECT_THAT(fake_.engine->CreateCollection({.dim = 1, .id_type = static_cast<IdType>(3)}),
              StatusIs(kInvalidArgument, HasSubstr("id_type = 3")));
}

TEST_F(CorpusTest, ACommitShowsAllItsRowsAtOnceAndNoneBefore) {
  const Corpus rows = PlainRows({1, 2, 3}, {1, 3, 2});
  auto upload = *collection_->BeginUpload({.rows_max = 3});
  ASSERT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
  EXPECT_THAT(Found(), ElementsAre());
  EXPECT_EQ(collection_->Stats().rows_count, 0);
  ASSERT_OK_AND_ASSIGN(const auto committed, upload->Commit());
  EXPECT_EQ(committed.epoch, 1u);
  EXPECT_EQ(committed.rows_count, 3);
  EXPECT_THAT(Found(), ElementsAre(2, 3, 1));
  EXPECT_EQ(collection_->Stats().epoch, 1u);
}

TEST_F(CorpusTest, AnIdTwiceInTheUploadIsNamedAndNothingIsCommitted) {
  EXPECT_THAT(UploadAll(*collection_, PlainRows({4, 9, 5, 9}, {1, 2, 3, 4})),
              StatusIs(kAlreadyExists, HasSubstr("id 9 occurs twice in the upload")));
  EXPECT_EQ(collection_->Stats().epoch, 0u);
  EXPECT_EQ(fake_.device->bytes_used(), 0);
}

TEST_F(CorpusTest, AnIdOfAnyGenerationIsTaken) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({10, 20, 30}, {1, 2, 3})));
  ASSERT_OK(UploadAll(*collection_, PlainRows({40, 15}, {4, 5})));
  for (const uint64_t taken : {10u, 20u, 30u, 40u, 15u}) {
    EXPECT_THAT(UploadAll(*collection_, PlainRows({1, taken, 99}, {1, 2, 3})),
                StatusIs(kAlreadyExists, HasSubstr("id " + std::to_string(taken) + " is already")));
  }
  EXPECT_EQ(collection_->Stats().epoch, 2u);
  EXPECT_EQ(collection_->Stats().rows_count, 5);
}

TEST_F(CorpusTest, ADeletedIdMayComeBackWithAnotherRow) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2, 3}, {1, 2, 3})));
  ASSERT_OK(collection_->Delete(Ids({3})));
  EXPECT_THAT(Found(), ElementsAre(2, 1));
  ASSERT_OK(UploadAll(*collection_, PlainRows({3}, {1.5f})));
  EXPECT_THAT(Found(), ElementsAre(2, 3, 1));
  EXPECT_THAT(UploadAll(*collection_, PlainRows({3}, {7})), StatusIs(kAlreadyExists));
  ASSERT_OK(collection_->Delete(Ids({3})));  // the new one; the old one stays deleted
  EXPECT_THAT(Found(), ElementsAre(2, 1));
  EXPECT_EQ(collection_->Stats().rows_count, 2);
}

TEST_F(CorpusTest, ADeletionIsOneEpochAndCountsRowsOnce) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2, 3}, {1, 2, 3})));
  ASSERT_OK(UploadAll(*collection_, PlainRows({4, 5, 6}, {4, 5, 6})));
  ASSERT_OK_AND_ASSIGN(const auto deleted, collection_->Delete(Ids({5, 77, 2, 5, 6})));
  EXPECT_EQ(deleted.rows_deleted, 3);
  EXPECT_EQ(deleted.epoch, 3u);
  EXPECT_THAT(Found(), ElementsAre(4, 3, 1));
  const CollectionStats stats = collection_->Stats();
  EXPECT_EQ(stats.rows_count, 3);
  EXPECT_EQ(stats.rows_deleted, 3);
  EXPECT_EQ(stats.generations_count, 2);
}

TEST_F(CorpusTest, DeletingOnlyUnknownIdsLeavesTheEpoch) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1}, {1})));
  for (const IdColumn& ids : {Ids({}), Ids({2, 3})}) {
    ASSERT_OK_AND_ASSIGN(const auto deleted, collection_->Delete(ids));
    EXPECT_EQ(deleted.rows_deleted, 0);
    EXPECT_EQ(deleted.epoch, 1u);
  }
  ASSERT_OK(collection_->Delete(Ids({1})));
  EXPECT_EQ(collection_->Delete(Ids({1}))->epoch, 2u);  // already deleted
}

TEST_F(CorpusTest, AGenerationWithoutALiveRowGivesItsMemoryBack) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2}, {1, 2})));
  ASSERT_OK(UploadAll(*collection_, PlainRows({3, 4}, {3, 4})));
  ASSERT_OK(collection_->Delete(Ids({1})));
  ASSERT_OK(collection_->Delete(Ids({2, 3})));
  EXPECT_EQ(collection_->Stats().generations_count, 1);
  ASSERT_OK(collection_->Delete(Ids({4})));
  EXPECT_EQ(collection_->Stats().generations_count, 0);
  EXPECT_EQ(collection_->Stats().epoch, 5u);
  EXPECT_EQ(fake_.engine->GetCapacity().device_bytes_used, 0);
  EXPECT_EQ(fake_.engine->GetCapacity().host_bytes_used, 0);
  EXPECT_THAT(Found(), ElementsAre());
}

TEST_F(CorpusTest, ADeletionThatFailsChangesNothing) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2}, {1, 2})));
  ASSERT_OK(UploadAll(*collection_, PlainRows({3, 4}, {3, 4})));
  fake_.device->FailAt(FakeCall::kMakeTombstones, 2, absl::ResourceExhaustedError("scripted"));
  EXPECT_THAT(collection_->Delete(Ids({1, 3})), StatusIs(kResourceExhausted));
  EXPECT_EQ(collection_->Stats().epoch, 2u);
  EXPECT_THAT(Found(), ElementsAre(4, 3, 2, 1));
}

TEST_F(CorpusTest, IdsOfTheWrongTypeAreRefused) {
  const IdColumn strings(IdType::kString);
  EXPECT_THAT(collection_->Delete(strings), StatusIs(kInvalidArgument, HasSubstr("are uint64")));
  EXPECT_THAT(collection_->Fetch(strings, {}), StatusIs(kInvalidArgument, HasSubstr("are uint64")));
}

class CorpusFetchTest : public ::testing::TestWithParam<IdType> {};

TEST_P(CorpusFetchTest, GivesLiveRowsInTheOrderAskedForBitForBit) {
  FakeEngine fake = MakeFakeEngine();
  const CollectionSpec spec = {
      .dim = 3, .metric = Metric::kL2, .row_type = RowType::kFloat16, .id_type = GetParam()};
  const Corpus all = MakeCorpus(spec, CorpusFamily::kBitPatterns, 30, TestSeed());
  const auto collection = *fake.engine->CreateCollection(spec);
  const std::vector<int64_t> indices = AllIndices(30);
  ASSERT_OK(UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(0, 17))));
  ASSERT_OK(UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(17))));
  IdColumn deleted(GetParam());
  deleted.AppendFrom(all.ids, 20);
  ASSERT_OK(collection->Delete(deleted));

  IdColumn asked(GetParam());
  const std::vector<int64_t> order = {29, 20, 3, 18, 3, 0};  // one deleted, one twice
  for (const int64_t row : order) asked.AppendFrom(all.ids, row);
  ASSERT_OK_AND_ASSIGN(const auto fetched,
                       collection->Fetch(asked, {.vectors = true, .payloads = true}));
  EXPECT_EQ(fetched.epoch, 3u);
  const Corpus want = Select(all, {29, 3, 18, 3, 0});
  ASSERT_EQ(fetched.ids.size(), 5);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(fetched.ids.at(i), want.ids.at(i));
    EXPECT_EQ(fetched.payloads.at(i), Payload(want.ids.at(i)));
  }
  EXPECT_EQ(fetched.rows, want.rows);

  ASSERT_OK_AND_ASSIGN(const auto bare, collection->Fetch(asked, {}));
  EXPECT_TRUE(bare.rows.empty());
  EXPECT_EQ(bare.payloads.size(), 0);
}

INSTANTIATE_TEST_SUITE_P(IdTypes, CorpusFetchTest,
                         ::testing::Values(IdType::kUint64, IdType::kString));

TEST_F(CorpusTest, ADroppedCollectionGivesAllMemoryBack) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2}, {1, 2})));
  ASSERT_OK(collection_->Delete(Ids({1})));
  EXPECT_GT(fake_.engine->GetCapacity().host_bytes_used, 0);
  collection_.reset();
  EXPECT_EQ(fake_.engine->GetCapacity().device_bytes_used, 0);
  EXPECT_EQ(fake_.engine->GetCapacity().host_bytes_used, 0);
}

TEST_F(CorpusTest, ACollectionOutlivesItsEngine) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2}, {1, 2})));
  fake_.engine.reset();
  ASSERT_OK_AND_ASSIGN(const auto fetched,
                       collection_->Fetch(Ids({2}), {.vectors = true, .payloads = false}));
  EXPECT_EQ(fetched.rows.size(), 8u);
  collection_.reset();
  EXPECT_EQ(fake_.device->bytes_used(), 0);
}

TEST(CorpusHostRowsTest, NeedHostRowsBytesOnADeviceWithItsOwnMemory) {
  const CollectionSpec spec = {.dim = 2, .rows = RowPlacement::kHost};
  EXPECT_OK(MakeFakeEngine().engine->CreateCollection(spec));
  const FakeEngine without = MakeFakeEngine({.device = {.kind = BackendKind::kGpu}});
  EXPECT_THAT(
      without.engine->CreateCollection(spec),
      StatusIs(kFailedPrecondition, AllOf(HasSubstr("rows = host"), HasSubstr("host_rows_bytes"))));
  const FakeEngine with =
      MakeFakeEngine({.device = {.kind = BackendKind::kGpu, .host_rows_bytes = 1 << 20}});
  EXPECT_OK(with.engine->CreateCollection(spec));
  EXPECT_EQ(with.engine->GetCapacity().host_rows_bytes_total, 1 << 20);
}

// Some GPUs have too little shared memory to scan codes of a large dimension.
TEST(CorpusScanTest, AboveTheDeviceSLimitTheRowsAreScanned) {
  const FakeEngine fake = MakeFakeEngine({.device = {.scan_dim_max = 64}});
  for (const ScanChoice scan : {ScanChoice::kInt8, ScanChoice::kAuto}) {
    const CollectionSpec spec = {.dim = 65, .scan = scan};
    ASSERT_OK_AND_ASSIGN(const auto above, fake.engine->CreateCollection(spec));
    EXPECT_EQ(above->Stats().scan, ScanPrecision::kRows);
  }
  ASSERT_OK_AND_ASSIGN(const auto at,
                       fake.engine->CreateCollection({.dim = 64, .scan = ScanChoice::kInt8}));
  EXPECT_EQ(at->Stats().scan, ScanPrecision::kInt8);
  EXPECT_THAT(fake.engine->CreateCollection({.dim = 65, .rows = RowPlacement::kHost}),
              StatusIs(kFailedPrecondition, HasSubstr("dim = 65, must be at most 64")));
}

}  // namespace
}  // namespace nearfield::testing
