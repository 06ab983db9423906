// Tests more commits than generations: merging changes no answer, copies few rows, and fails
// without an effect.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/row_model.h"

namespace nearfield::testing {
namespace {

void ExpectTheOraclesAnswers(const FakeEngine& fake, const Collection& collection,
                             const RowModel<>& model, Random& random) {
  const Corpus live = model.AllRows();
  for (const QueryFamily family : {QueryFamily::kGaussian, QueryFamily::kRow}) {
    if (live.rows_count() == 0) return;
    const std::vector<float> query = MakeQuery(live, family, random);
    for (const int32_t k : {1, 10, 1000}) {
      ASSERT_OK_AND_ASSIGN(const auto answer, SearchOne(*fake.engine, collection, query, k));
      EXPECT_THAT(answer, BytesEqual(OracleAnswer(live, query, k)));
    }
  }
}

class CorpusMergeModelTest : public ::testing::TestWithParam<CorpusFamily> {};

TEST_P(CorpusMergeModelTest, CommitsDeletionsAndMergesEqualTheOracle) {
  Random random(TestSeed());
  for (const IdType id_type : {IdType::kUint64, IdType::kString}) {
    FakeEngine fake = MakeFakeEngine();
    const CollectionSpec spec = {.dim = 5, .metric = Metric::kDot, .id_type = id_type};
    const auto collection = *fake.engine->CreateCollection(spec);
    const Corpus all = MakeCorpus(spec, GetParam(), 150, random.Bits());
    RowModel<> model = {.spec = spec};
    int64_t next = 0;
    while (next < all.rows_count()) {
      std::vector<int64_t> rows;
      const int64_t count = random.OneIn(4) ? 5 : 1;
      for (int64_t i = 0; i < count && next < all.rows_count(); ++i) rows.push_back(next++);
      ASSERT_OK_AND_ASSIGN(const auto committed, UploadAll(*collection, Select(all, rows)));
      model.Commit(UploadMode::kInsert, UploadOf(Select(all, rows)));
      EXPECT_EQ(committed.epoch, model.epoch);
      if (random.OneIn(3)) {
        const int64_t victim[] = {random.Between(0, next)};
        const IdColumn id = Select(all, victim).ids;
        ASSERT_OK_AND_ASSIGN(const auto deleted, collection->Delete(id));
        EXPECT_EQ(deleted.rows_deleted, model.Delete(id));
      }
      const CollectionStats stats = collection->Stats();
      EXPECT_LE(stats.generations_count, kGenerationsMax);
      EXPECT_EQ(stats.epoch, model.epoch);
      EXPECT_EQ(stats.rows_count, model.AllRows().rows_count());
      EXPECT_EQ(stats.host_bytes, fake.engine->GetCapacity().host_bytes_used);
      ExpectTheOraclesAnswers(fake, *collection, model, random);
    }
    EXPECT_GT(fake.device->rows_copied(), 0);  // there were merges
    ASSERT_OK_AND_ASSIGN(const auto fetched,
                         collection->Fetch(all.ids, {.vectors = true, .payloads = true}));
    std::vector<int64_t> live_rows;
    for (int64_t row = 0; row < all.rows_count(); ++row) {
      if (model.rows.count(all.ids.at(row)) > 0) live_rows.push_back(row);
    }
    const Corpus live = Select(all, live_rows);
    EXPECT_EQ(fetched.rows, live.rows);
    for (int64_t i = 0; i < live.rows_count(); ++i) {
      EXPECT_EQ(fetched.payloads.at(i), Payload(live.ids.at(i)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CorpusMergeModelTest,
                         ::testing::Values(CorpusFamily::kGaussian, CorpusFamily::kDuplicates,
                                           CorpusFamily::kAllEqual, CorpusFamily::kZeroRows));

TEST(CorpusMergeTest, ThousandsOfOneRowCommitsCopyLittle) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  constexpr uint64_t kCommits = 5000;
  for (uint64_t i = 0; i < kCommits; ++i) {
    ASSERT_OK(UploadAll(*collection, PlainRows({Scramble(i)}, {1.0f})));
  }
  EXPECT_EQ(collection->Stats().epoch, kCommits);
  EXPECT_EQ(collection->Stats().rows_count, static_cast<int64_t>(kCommits));
  EXPECT_LT(fake.device->rows_copied(), static_cast<int64_t>(10 * kCommits));
}

TEST(CorpusMergeTest, AMergeDropsDeletedRowsAndTheirMemory) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  for (uint64_t i = 0; i < 16; ++i) {
    ASSERT_OK(UploadAll(*collection, PlainRows({3 * i, 3 * i + 1}, {1, 2})));
    ASSERT_OK(collection->Delete(Ids({3 * i})));
  }
  EXPECT_EQ(collection->Stats().rows_deleted, 16);
  ASSERT_OK(UploadAll(*collection, PlainRows({100}, {3})));
  const CollectionStats stats = collection->Stats();
  EXPECT_LT(stats.rows_deleted, 16);
  EXPECT_EQ(stats.rows_count, 17);
  EXPECT_LE(stats.generations_count, kGenerationsMax);
}

class CorpusMergeFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t i = 0; i < 16; ++i) {
      ASSERT_OK(UploadAll(*collection_, PlainRows({i}, {static_cast<float>(i)})));
    }
    before_ = fake_.engine->GetCapacity();
  }
  void ExpectUnchanged() {
    EXPECT_EQ(collection_->Stats().epoch, 16u);
    EXPECT_EQ(collection_->Stats().rows_count, 16);
    EXPECT_EQ(fake_.engine->GetCapacity().device_bytes_used, before_.device_bytes_used);
    EXPECT_EQ(fake_.engine->GetCapacity().host_bytes_used, before_.host_bytes_used);
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  Capacity before_;
};

TEST_F(CorpusMergeFaultTest, AFaultInTheMiddleOfAMergeChangesNothing) {
  for (const FakeCall call : {FakeCall::kAppendFrom, FakeCall::kSeal}) {
    // The first Seal is that of the upload itself.
    fake_.device->FailAt(call, call == FakeCall::kSeal ? 2 : 3, absl::InternalError("scripted"));
    EXPECT_THAT(UploadAll(*collection_, PlainRows({99}, {1})), StatusIs(kInternal));
    ExpectUnchanged();
  }
  EXPECT_OK(UploadAll(*collection_, PlainRows({99}, {1})));
}

TEST_F(CorpusMergeFaultTest, WithoutMemoryForABigMergeASmallOneServes) {
  auto upload = *collection_->BeginUpload({.rows_max = 1});
  const Corpus row = PlainRows({99}, {1});
  ASSERT_OK(upload->Append({.ids = &row.ids, .rows = row.rows}));
  fake_.device->FailAt(FakeCall::kReserve, 1, absl::ResourceExhaustedError("scripted"));
  EXPECT_OK(upload->Commit());
  EXPECT_EQ(collection_->Stats().generations_count, 16);
  EXPECT_EQ(collection_->Stats().rows_count, 17);
}

TEST(CorpusMergeMemoryTest, WithoutAnyMemoryTheCommitIsRefusedInClearWords) {
  // Memory for 17 rows of 28 bytes, and one byte less than two further rows.
  FakeEngineOptions options;
  options.device.memory_bytes = 17 * 28 + 55;
  FakeEngine fake = MakeFakeEngine(options);
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  for (uint64_t i = 0; i < 16; ++i) {
    ASSERT_OK(UploadAll(*collection, PlainRows({i}, {static_cast<float>(i)})));
  }
  EXPECT_THAT(
      UploadAll(*collection, PlainRows({99}, {1})),
      StatusIs(kResourceExhausted, AllOf(HasSubstr("16 parts"), HasSubstr("needs 56 bytes"))));
  EXPECT_EQ(collection->Stats().epoch, 16u);
  EXPECT_EQ(fake.device->bytes_used(), 16 * 28);
  // After the deletion of a generation, the commit needs no merge.
  ASSERT_OK(collection->Delete(Ids({3})));
  EXPECT_OK(UploadAll(*collection, PlainRows({99}, {1})));
}

}  // namespace
}  // namespace nearfield::testing
