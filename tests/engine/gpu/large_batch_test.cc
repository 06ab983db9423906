// Tests searches of large batches by codes on the GPU: several stages, parts, and a large k.
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/engine/cpu/reference.h"
#include "tests/engine/gpu/gpu_certified_fixture.h"

namespace nearfield::gpu {
namespace {

// Several stages, with k of every class of a batch.
TEST_F(GpuCertifiedTest, GreatBatchesOfGreatCorporaEqualTheReference) {
  const std::shared_ptr<GpuCore> core = MakeCore(4 * kMiB);
  ASSERT_NE(core, nullptr);
  for (const ScanChoice scan : kCodes) {
    Scenario scenario = {.spec = {.dim = 48, .scan = scan}};
    AddRows(scenario, CorpusFamily::kGaussian, 150'000, true);
    AddRows(scenario, CorpusFamily::kClustered, 30'000);
    for (const int32_t k : {1, 16, 17, 128, 129, 1024}) {
      scenario.AddQueries(5, k, QueryFamily::kGaussian, random_);
    }
    ExpectReferenceAnswers(*backend_, scenario);
    for (const int32_t k : {1025, 4097}) scenario.AddQueries(2, k, QueryFamily::kRow, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    // Lesser GPUs answer so large a k from the rows.
    if (core->BatchServes(scenario.spec.dim, 4097)) {
      EXPECT_EQ(cost.queries_of_codes, static_cast<int64_t>(scenario.k.size()));
    }
  }
}

// Few rows for so large a k, and ties with the k-th in every generation.
TEST_F(GpuCertifiedTest, SmokeBatchesOfALargeKEqualTheReference) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnyCodesSpec(100)};
    const int64_t generations = random_.Between(1, 4);
    for (int64_t g = 0; g < generations; ++g) {
      AddRows(scenario, family, random_.Between(500, 5'000), random_.OneIn(2));
    }
    for (int64_t q = 0; q < 12; ++q) {
      scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1'025, 4'098)),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// Enough queries, each with a small k, to be refined by small blocks.
TEST_F(GpuCertifiedTest, SmokeManyShortAnswersEqualTheReference) {
  for (const CorpusFamily family :
       {CorpusFamily::kGaussian, CorpusFamily::kDuplicates, CorpusFamily::kAllEqual}) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnyCodesSpec(100)};
    const int64_t generations = random_.Between(1, 4);
    for (int64_t g = 0; g < generations; ++g) {
      AddRows(scenario, family, random_.Between(1, 2'000), random_.OneIn(2));
    }
    for (int64_t q = random_.Between(133, 200); q > 0; --q) {
      scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 129)),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// A pass that queries with different filters share: several stages, and every width of a block.
TEST_F(GpuCertifiedTest, SmokeQueriesWithDifferentFiltersEqualTheReference) {
  for (const int64_t queries : {3, 16, 30, 60, 70, 128, 150, 300}) {
    SCOPED_TRACE(queries);
    Scenario scenario = {.spec = AnyCodesSpec(200)};
    AddRows(scenario, CorpusFamily::kGaussian, random_.Between(20'000, 40'000), random_.OneIn(2));
    const int64_t more_generations = random_.Between(0, 4);
    for (int64_t g = 0; g < more_generations; ++g) {
      AddRows(scenario, random_.OneOf<CorpusFamily>(testing::kCorpusFamilies),
              random_.Between(1, 9'000), random_.OneIn(2));
    }
    for (int64_t q = 0; q < queries; ++q) {
      const int64_t k = random_.OneIn(20) ? random_.Between(1, 1'025) : random_.Between(1, 30);
      scenario.AddQueries(1, static_cast<int32_t>(k),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
    scenario.AddFilters(random_);
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// Queues of queries that share a pass overflow: these queries are answered from the rows that each
// of them sees.
TEST_F(GpuCertifiedTest, QueuesOfQueriesWithDifferentFiltersThatOverflowLoseNothing) {
  Scenario scenario = {.spec = CodesSpec(32)};
  Corpus corpus = MakeCorpus(scenario.spec, CorpusFamily::kDuplicates, 200'000, random_.Bits());
  scenario.generations.push_back(
      testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
  for (const int64_t queries : {5, 70}) {
    scenario.AddQueries(queries, 10, QueryFamily::kRow, random_);
    scenario.AddFilters(random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_GT(cost.escalations.canonical, 0);
  }
}

// Rows of equal score that a small block has no room for: these queries are searched again, and are
// too many for the blocks of a small batch.
TEST_F(GpuCertifiedTest, ShortAnswersWithManyTiesAreFoundInTheCodes) {
  Scenario scenario = {.spec = CodesSpec(32)};
  Corpus corpus = MakeCorpus(scenario.spec, CorpusFamily::kGaussian, 3'000, random_.Bits());
  for (int64_t row = 1; row < 1'500; ++row) {
    std::memcpy(corpus.rows.data() + row * corpus.row_bytes(), corpus.rows.data(),
                static_cast<size_t>(corpus.row_bytes()));
  }
  scenario.generations.push_back(
      testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
  scenario.AddQueries(400, 10, QueryFamily::kGaussian, random_);
  scenario.AddQueries(350, 10, QueryFamily::kRow, random_);
  const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
  EXPECT_EQ(cost.queries_of_codes, 750);
  EXPECT_EQ(cost.escalations.tighter, 0);
}

// Queries whose queues overflow are answered from the rows, together.
TEST_F(GpuCertifiedTest, QueuesThatOverflowLoseNothing) {
  Scenario scenario = {.spec = CodesSpec(32)};
  // There are few distinct rows, so a stage finds thousands at the threshold.
  Corpus corpus = MakeCorpus(scenario.spec, CorpusFamily::kDuplicates, 200'000, random_.Bits());
  scenario.generations.push_back(
      testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
  for (const int64_t queries : {5, 70}) {
    scenario.AddQueries(queries, 10, QueryFamily::kRow, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_GE(cost.escalations.tighter, queries);
    EXPECT_EQ(cost.escalations.canonical, static_cast<int64_t>(scenario.k.size()));
  }
}

// Queries that exceed the room for results run in a second part of the batch, with their own k.
TEST_F(GpuCertifiedTest, LaterPartsOfABatchTakeTheirOwnK) {
  Scenario scenario = {.spec = CodesSpec(24)};
  AddRows(scenario, CorpusFamily::kGaussian, 9'000);
  AddRows(scenario, CorpusFamily::kGaussian, 700);
  for (int64_t q = 0; q < 1'000; ++q) {
    scenario.AddQueries(1, q < 400 ? 3 : static_cast<int32_t>(random_.Between(4, 20)),
                        QueryFamily::kGaussian, random_);
  }
  const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
  EXPECT_EQ(cost.queries_of_codes, 1'000);
}

}  // namespace
}  // namespace nearfield::gpu
