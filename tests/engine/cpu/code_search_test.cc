// Tests searches by codes: exact to the bit on adversarial rows, and on the intended path.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_topk_engine.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"

namespace nearfield::cpu {
namespace {

CollectionSpec CodesSpec(int32_t dim) { return {.dim = dim, .scan = ScanChoice::kInt8}; }

Scenario OneGeneration(const CollectionSpec& spec, CorpusFamily family, int64_t rows_count,
                       Random& random) {
  Scenario scenario = {.spec = spec};
  scenario.AddGeneration(family, rows_count, RankOrder::kShuffled, false, random);
  return scenario;
}

class CodeSearchTest : public ::testing::TestWithParam<std::tuple<std::string, int32_t>> {
 protected:
  CodeSearchTest() : backend_(MakeBackend(std::get<0>(GetParam()), std::get<1>(GetParam()))) {}
  std::unique_ptr<backend::Backend> backend_;
  Random random_{TestSeed()};
};

// More codes than one thread scans alone.
TEST_P(CodeSearchTest, ManyRowsScannedBySeveralThreadsEqualTheReference) {
  constexpr int32_t kDim = 40;
  constexpr int64_t kRows = (int64_t{5} << 20) / CodeStride(kDim);
  const auto family = random_.OneIn(2) ? CorpusFamily::kGaussian : CorpusFamily::kDuplicates;
  Scenario scenario = {.spec = CodesSpec(kDim)};
  scenario.AddGeneration(family, kRows, RankOrder::kShuffled, true, random_);
  scenario.AddGeneration(family, 500, RankOrder::kShuffled, false, random_);
  for (const int64_t queries : {1, 2, 6}) {
    scenario.queries.clear();
    scenario.k.clear();
    scenario.AddQueries(queries, 30, QueryFamily::kGaussian, random_);
    ExpectReferenceAnswers(*backend_, scenario);
  }
}

// The best rows of the first tile are deleted, so their bounds must not count.
TEST_P(CodeSearchTest, DeletedRowsGiveNoFloor) {
  constexpr int32_t kDim = 48;
  constexpr int64_t kRows = 640;
  Scenario scenario = OneGeneration(CodesSpec(kDim), CorpusFamily::kGaussian, kRows, random_);
  HostGeneration& generation = scenario.generations[0];
  generation.deleted_words.assign(kRows / 64, 0);
  for (int64_t slot = 0; slot < kRows; slot += 2) {
    auto* const row = reinterpret_cast<float*>(generation.corpus.rows.data()) + slot * kDim;
    std::fill(row, row + kDim, 100.0f);
    generation.deleted_words[static_cast<size_t>(slot / 64)] |= uint64_t{1} << (slot % 64);
  }
  generation.rows_live = kRows / 2;
  scenario.queries.assign(kDim, 1.0f);
  scenario.k = {10};
  ExpectReferenceAnswers(*backend_, scenario);
}

// Requests few neighbors of many rows, so that codes are used. Several generations share a floor.
TEST_P(CodeSearchTest, EqualsTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    CollectionSpec spec = CodesSpec(static_cast<int32_t>(random_.Between(1, 130)));
    spec.metric = static_cast<Metric>(random_.Between(1, 4));
    spec.row_type = static_cast<RowType>(random_.Between(1, 4));
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = spec};
    const int64_t generations = random_.Between(1, 4);
    for (int64_t g = 0; g < generations; ++g) {
      const int64_t rows = random_.OneIn(4) ? random_.Between(1, 100) : random_.Between(100, 2500);
      const auto order = random_.OneIn(2) ? RankOrder::kShuffled : RankOrder::kDescending;
      scenario.AddGeneration(family, rows, order, random_.OneIn(2), random_);
    }
    const int64_t queries = random_.OneIn(2) ? random_.Between(1, 5) : random_.Between(5, 40);
    for (int64_t q = 0; q < queries; ++q) {
      scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 25)),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// By codes and by rows, with and without row terms; queries of some filters are searched alone.
TEST_P(CodeSearchTest, QueriesWithDifferentFiltersEqualTheReference) {
  for (const ScanChoice scan : {ScanChoice::kInt8, ScanChoice::kRows}) {
    for (const int64_t queries : {3, 40}) {
      for (const int64_t rows : {300, 20'000}) {
        Scenario scenario = {.spec = {.dim = 40, .scan = scan}};
        scenario.AddGeneration(CorpusFamily::kGaussian, rows, RankOrder::kShuffled, true, random_);
        scenario.AddGeneration(CorpusFamily::kDuplicates, rows / 2, RankOrder::kShuffled, false,
                               random_);
        for (int64_t q = 0; q < queries; ++q) {
          scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 30)),
                              QueryFamily::kGaussian, random_);
        }
        scenario.AddFilters(random_);
        ExpectReferenceAnswers(*backend_, scenario);
        scenario.AddTerms(random_);
        ExpectReferenceAnswers(*backend_, scenario);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(CodeSearchTest, RowsWhoseProductsCancelEqualTheReference) {
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    CollectionSpec spec = CodesSpec(101);
    spec.metric = metric;
    for (const int32_t queries : {1, 20}) {
      ExpectReferenceAnswers(*backend_, testing::CancellingScenario(spec, 700, queries, random_));
      if (HasFailure()) return;
    }
  }
}

TEST_P(CodeSearchTest, RowsOfExtremeMagnitudeEqualTheReference) {
  for (const int exponent : {-149, -126, -70, 58, 62, 125}) {
    SCOPED_TRACE(exponent);
    CollectionSpec spec = CodesSpec(96);
    spec.metric = static_cast<Metric>(random_.Between(1, 4));
    for (const int32_t queries : {1, 20}) {
      ExpectReferenceAnswers(*backend_,
                             testing::ExtremeScenario(spec, 700, queries, exponent, random_));
      if (HasFailure()) return;
    }
  }
}

TEST_P(CodeSearchTest, CodesRuleOutAllButAFewRows) {
  for (const int64_t queries : {1, 3, 20}) {
    Scenario scenario = OneGeneration(CodesSpec(64), CorpusFamily::kGaussian, 6000, random_);
    scenario.AddQueries(queries, 10, QueryFamily::kGaussian, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_EQ(cost.queries_of_codes, queries);
    EXPECT_EQ(cost.escalations.canonical, 0);
    EXPECT_GE(cost.candidates, queries * 10);
    EXPECT_LE(cost.candidates, queries * 6000 / 10);
  }
}

// All rows score the same, so no bound is below any score: every query falls back to a row scan.
TEST_P(CodeSearchTest, QueriesThatCodesCannotHelpGiveUpEarly) {
  constexpr int64_t kRows = 12'000;
  for (const int64_t queries : {1, 20}) {
    Scenario scenario = OneGeneration(CodesSpec(40), CorpusFamily::kAllEqual, kRows, random_);
    scenario.AddQueries(queries, 10, QueryFamily::kGaussian, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_EQ(cost.queries_of_codes, 0);
    EXPECT_EQ(cost.escalations.canonical, queries);
    // The rows themselves once, and little in addition.
    const int64_t rows_bytes = kRows * 64 * 4;
    EXPECT_LE(cost.bytes_read, 5 * rows_bytes * queries);
  }
}

// Keeps each row with probability `share`.
void DeleteAllBut(double share, HostGeneration& generation, Random& random) {
  const auto rows_count = static_cast<int64_t>(generation.ranks.size());
  generation.deleted_words.assign(static_cast<size_t>((rows_count + 63) / 64), 0);
  generation.rows_live = 0;
  for (int64_t slot = 0; slot < rows_count; ++slot) {
    if (random.Between(0, 1000) < static_cast<int64_t>(share * 1000)) {
      ++generation.rows_live;
    } else {
      generation.deleted_words[static_cast<size_t>(slot / 64)] |= uint64_t{1} << (slot % 64);
    }
  }
}

// A batch skips the deleted rows, so most rows of a filtered search cost nothing. If few rows are
// deleted, all are read.
TEST_P(CodeSearchTest, ABatchReadsTheCodesOfTheRowsThatAreLeft) {
  constexpr int32_t kDim = 64;
  for (const double share : {0.9, 0.7, 0.5, 0.2}) {
    SCOPED_TRACE(share);
    Scenario scenario = OneGeneration(CodesSpec(kDim), CorpusFamily::kGaussian, 12'000, random_);
    HostGeneration& generation = scenario.generations[0];
    DeleteAllBut(share, generation, random_);
    scenario.AddQueries(20, 5, QueryFamily::kGaussian, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_EQ(cost.queries_of_codes, 20);
    const int64_t read_of_codes = cost.bytes_read - cost.candidates * kDim * 4;
    const int64_t row_bytes = kDim + static_cast<int64_t>(sizeof(bound::RowBound));
    EXPECT_EQ(read_of_codes % row_bytes, 0);
    EXPECT_GE(read_of_codes / row_bytes, generation.rows_live);
    if (share < 0.6) {
      EXPECT_EQ(read_of_codes / row_bytes, generation.rows_live);
    }
  }
}

// If one query abandons its codes, the other queries of its batch still use theirs.
TEST_P(CodeSearchTest, AQueryGivesUpAlone) {
  Scenario scenario = OneGeneration(CodesSpec(33), CorpusFamily::kGaussian, 6000, random_);
  scenario.AddQueries(9, 7, QueryFamily::kGaussian, random_);
  std::fill(scenario.queries.begin() + 3 * 33, scenario.queries.begin() + 4 * 33, 0.0f);
  const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
  EXPECT_EQ(cost.queries_of_codes, 8);
  EXPECT_EQ(cost.escalations.canonical, 1);
}

// Queries that abandon their codes are packed for the row scan; so must be a query that does so in
// a later generation. All rows score 0 for the first query; the second has equal rows only later.
TEST_P(CodeSearchTest, AQueryThatGivesUpInALaterGenerationIsScannedWithItsOwnVector) {
  constexpr int32_t kDim = 33;
  Scenario scenario = OneGeneration(CodesSpec(kDim), CorpusFamily::kGaussian, 6000, random_);
  Corpus equal = MakeCorpus(scenario.spec, CorpusFamily::kAllEqual, 12'000, random_.Bits());
  scenario.queries.resize(2 * kDim);
  std::memcpy(scenario.queries.data() + kDim, equal.rows.data(), kDim * sizeof(float));
  for (float& value : scenario.queries) value *= 1000.0f;
  scenario.k = {10, 10};
  scenario.generations.push_back(
      testing::MakeGeneration(std::move(equal), RankOrder::kShuffled, false, random_));
  const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
  EXPECT_EQ(cost.escalations.canonical, 2);
}

// Each row is better than the one before, so in upload order a floor would never rule out later
// rows. It does, because tiles from all over the generation are scanned first.
TEST_P(CodeSearchTest, RowsInAscendingOrderOfScoresAreRuledOutAllTheSame) {
  constexpr int64_t kRows = 60'000;
  constexpr int32_t kDim = 32;
  for (const int64_t queries : {1, 6}) {
    Scenario scenario;
    scenario.spec = CodesSpec(kDim);
    Corpus corpus;
    corpus.spec = scenario.spec;
    corpus.ids = MakeIds(IdType::kUint64, kRows, random_.Bits());
    std::vector<float> row(kDim);
    for (int64_t r = 0; r < kRows; ++r) {
      for (float& value : row) value = random_.Gaussian() * 0.01f + static_cast<float>(r) * 5e-5f;
      const auto* bytes = reinterpret_cast<const uint8_t*>(row.data());
      corpus.rows.insert(corpus.rows.end(), bytes, bytes + row.size() * sizeof(float));
    }
    scenario.generations.push_back(
        testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
    scenario.queries.assign(static_cast<size_t>(queries * kDim), 1.0f);
    scenario.k.assign(static_cast<size_t>(queries), 10);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    if (std::get<1>(GetParam()) > 1) continue;  // with several threads the count depends on timing
    EXPECT_EQ(cost.queries_of_codes, queries);
    EXPECT_LE(cost.candidates, queries * kRows / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CodeSearchTest,
                         ::testing::Combine(::testing::ValuesIn(CpuInstructionSets()),
                                            ::testing::ValuesIn(testing::ThreadCounts())),
                         [](const ::testing::TestParamInfo<CodeSearchTest::ParamType>& param) {
                           return std::get<0>(param.param) + "_" +
                                  std::to_string(std::get<1>(param.param)) + "_threads";
                         });

TEST(CodeSearchFactsTest, PlanesWithoutCodesAreRefused) {
  const auto backend = MakeBackend("", 1);
  Random random(TestSeed());
  const CollectionSpec spec = {.dim = 33};
  const Scenario scenario = OneGeneration(spec, CorpusFamily::kGaussian, 10, random);
  const LoadedGeneration loaded = testing::Load(*backend, scenario.generations[0]);
  const std::vector<float> query(33, 1.0f);
  const std::vector<int32_t> k = {1};
  const backend::QueryTile tile = testing::TileOf(query, k);
  backend::ScanCost cost;
  backend::RankedLists best;
  EXPECT_THAT(
      backend->Search(testing::FormatOf(CodesSpec(33)), {&loaded.view, 1}, tile, &best, &cost),
      StatusIs(kInvalidArgument, HasSubstr("codes that it lacks")));
  // Codes serve only the metric that they were made for.
  const LoadedGeneration coded = testing::Load(*backend, scenario.generations[0], CodesSpec(33));
  CollectionSpec other = CodesSpec(33);
  other.metric = Metric::kL2;
  EXPECT_THAT(backend->Search(testing::FormatOf(other), {&coded.view, 1}, tile, &best, &cost),
              StatusIs(kInvalidArgument, HasSubstr("codes that it lacks")));
}

}  // namespace
}  // namespace nearfield::cpu
