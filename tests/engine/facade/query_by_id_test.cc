// Tests of queries by the id of a stored row: the row is the exact query, and the answer excludes
// it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

absl::StatusOr<SearchResult> SearchById(Engine& engine, const Collection& collection, Id id,
                                        int32_t k) {
  SearchBatch batch;
  batch.queries = {{.vector = {}, .row_id = std::move(id), .k = k}};
  return engine.Search(collection, batch);
}

TEST(EngineQueryByIdTest, EqualsTheOracleOverTheOtherRows) {
  Random random(TestSeed());
  for (const RowType row_type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
      for (const CorpusFamily family : {CorpusFamily::kGaussian, CorpusFamily::kDuplicates}) {
        FakeEngine fake = MakeFakeEngine();
        const CollectionSpec spec = {
            .dim = 7, .metric = metric, .row_type = row_type, .id_type = IdType::kString};
        const Corpus all = MakeCorpus(spec, family, 24, random.Bits());
        const auto collection = *fake.engine->CreateCollection(spec);
        const std::vector<int64_t> indices = AllIndices(24);
        for (size_t begin = 0; begin < 24; begin += 8) {
          ASSERT_OK(
              UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(begin, 8))));
        }
        for (const int64_t self : {0, 9, 23}) {
          std::vector<int64_t> others = indices;
          others.erase(others.begin() + self);
          const std::vector<float> vector = Decode(spec, all.row(self));
          for (const int32_t k : {1, 5, 23, 24, kKMax}) {
            ASSERT_OK_AND_ASSIGN(const auto result,
                                 SearchById(*fake.engine, *collection, all.ids.at(self), k));
            const Neighbors want = OracleAnswer(Select(all, others), vector, k);
            EXPECT_THAT(result.queries[0], BytesEqual(want)) << Describe(spec);
          }
        }
      }
    }
  }
}

// With dot products a row need not be among its own best rows; then no other row may be dropped for
// it.
TEST(EngineQueryByIdTest, ARowThatIsNotAmongItsOwnBestCostsNoNeighbor) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2, 3, 4}, {1, 2, 3, 4})));
  ASSERT_OK_AND_ASSIGN(const auto result,
                       SearchById(*fake.engine, *collection, Id(uint64_t{1}), 2));
  Neighbors want;
  want.ids = Ids({4, 3});
  want.scores = {5, 4};
  EXPECT_THAT(result.queries[0], BytesEqual(want));
}

TEST(EngineQueryByIdTest, TheOnlyRowHasNoNeighbors) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1}, {1})));
  ASSERT_OK_AND_ASSIGN(const auto result,
                       SearchById(*fake.engine, *collection, Id(uint64_t{1}), 3));
  EXPECT_TRUE(result.queries[0].scores.empty());
}

TEST(EngineQueryByIdTest, AnIdWithoutALiveRowIsNotFound) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  EXPECT_THAT(SearchById(*fake.engine, *collection, Id(uint64_t{1}), 1),
              StatusIs(kNotFound, HasSubstr("names no row at epoch 0")));
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2}, {1, 2})));
  ASSERT_OK(collection->Delete(Ids({1})));
  EXPECT_THAT(SearchById(*fake.engine, *collection, Id(uint64_t{1}), 1),
              StatusIs(kNotFound, HasSubstr("queries[0].row_id = 1 names no row at epoch 2")));
}

TEST(EngineQueryByIdTest, AZeroRowHasNoDirectionForCosine) {
  FakeEngine fake = MakeFakeEngine();
  const CollectionSpec spec = {.dim = 4, .metric = Metric::kCosine, .row_type = RowType::kFloat16};
  const Corpus rows = MakeCorpus(spec, CorpusFamily::kAllZero, 2, TestSeed());
  const auto collection = *fake.engine->CreateCollection(spec);
  ASSERT_OK(UploadAll(*collection, rows));
  EXPECT_THAT(
      SearchById(*fake.engine, *collection, rows.ids.at(1), 1),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("queries[0].row_id"), HasSubstr("all zeros"))));
}

TEST(EngineQueryByIdTest, MixesWithVectorsInOneBatch) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2, 3}, {1, 2, 3})));
  const std::vector<float> vector = {1, 1};
  SearchBatch batch;
  batch.queries = {{.vector = {}, .row_id = Id(uint64_t{3}), .k = 3},
                   {.vector = vector, .row_id = {}, .k = 1},
                   {.vector = {}, .row_id = Id(uint64_t{1}), .k = 1}};
  ASSERT_OK_AND_ASSIGN(const auto result, fake.engine->Search(*collection, batch));
  EXPECT_EQ(result.queries[0].ids.size(), 2);
  EXPECT_EQ(result.queries[0].ids.number(0), 2u);
  EXPECT_EQ(result.queries[1].ids.number(0), 3u);
  EXPECT_EQ(result.queries[2].ids.number(0), 3u);
}

}  // namespace
}  // namespace nearfield::testing
