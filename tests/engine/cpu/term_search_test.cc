// Tests searches with row terms: exact to the bit, by codes, over the rows and over listed rows.

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/cpu/cpu_topk_engine.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/testing/row_terms.h"

namespace nearfield::cpu {
namespace {

class TermSearchTest : public ::testing::TestWithParam<std::tuple<std::string, int32_t>> {
 protected:
  TermSearchTest() : backend_(MakeBackend(std::get<0>(GetParam()), std::get<1>(GetParam()))) {}

  // Searches scenarios of every family and both scans, with `queries_end` queries at most.
  void ExpectOnEveryFamily(int64_t queries_begin, int64_t queries_end) {
    for (const CorpusFamily family : testing::kCorpusFamilies) {
      CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, 100)),
                             .metric = static_cast<Metric>(random_.Between(1, 4)),
                             .row_type = static_cast<RowType>(random_.Between(1, 4))};
      spec.scan = random_.OneIn(3) ? ScanChoice::kRows : ScanChoice::kInt8;
      SCOPED_TRACE(testing::Name(family));
      Scenario scenario = {.spec = spec};
      const int64_t generations = random_.Between(1, 4);
      for (int64_t g = 0; g < generations; ++g) {
        const int64_t rows =
            random_.OneIn(4) ? random_.Between(1, 100) : random_.Between(100, 2500);
        scenario.AddGeneration(family, rows, random_.OneOf<RankOrder>(kRankOrders),
                               random_.OneIn(2), random_);
      }
      const int64_t queries = random_.Between(queries_begin, queries_end);
      for (int64_t q = 0; q < queries; ++q) {
        scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 25)),
                            random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
      }
      scenario.AddTerms(random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }

  std::unique_ptr<backend::Backend> backend_;
  Random random_{TestSeed()};
};

TEST_P(TermSearchTest, FewQueriesEqualTheReferenceOnEveryFamily) {
  for (int i = 0; i < 4 && !HasFailure(); ++i) ExpectOnEveryFamily(1, 5);
}

TEST_P(TermSearchTest, ABatchEqualsTheReferenceOnEveryFamily) { ExpectOnEveryFamily(5, 40); }

// Bounds of such rows say nothing: they are +inf or NaN.
TEST_P(TermSearchTest, RowsOfExtremeMagnitudeEqualTheReference) {
  for (const int exponent : {-149, -70, 58, 62, 125}) {
    SCOPED_TRACE(exponent);
    const CollectionSpec spec = {
        .dim = 96, .metric = static_cast<Metric>(random_.Between(1, 4)), .scan = ScanChoice::kInt8};
    for (const int32_t queries : {1, 20}) {
      Scenario scenario = testing::ExtremeScenario(spec, 700, queries, exponent, random_);
      scenario.AddTerms(random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST_P(TermSearchTest, ListedRowsEqualTheReference) {
  constexpr int64_t kRows = 3'000;
  for (int i = 0; i < 6; ++i) {
    Scenario scenario = {.spec = {.dim = 33, .scan = ScanChoice::kInt8}};
    scenario.AddGeneration(CorpusFamily::kDuplicates, kRows, RankOrder::kShuffled, false, random_);
    HostGeneration& generation = scenario.generations[0];
    generation.deleted_words.assign((kRows + 63) / 64, ~uint64_t{0});
    generation.deleted_words.back() >>= 64 - kRows % 64;
    generation.rows_live = 0;
    std::vector<uint32_t> live;
    for (int64_t slot = random_.Between(0, 100); slot < kRows; slot += random_.Between(1, 300)) {
      generation.deleted_words[static_cast<size_t>(slot / 64)] &= ~(uint64_t{1} << (slot % 64));
      live.push_back(static_cast<uint32_t>(slot));
      ++generation.rows_live;
    }
    scenario.AddQueries(random_.Between(1, 10), 7, QueryFamily::kGaussian, random_);
    scenario.AddTerms(random_);
    scenario.live_slots = {live};
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// The best row has the worst score: only its term lifts it, and the floor of the others is known
// by then.
TEST_P(TermSearchTest, ATermLiftsALateRow) {
  constexpr int64_t kRows = 5'000;
  for (const int64_t queries : {1, 8}) {
    for (const ScanChoice scan : {ScanChoice::kInt8, ScanChoice::kRows}) {
      Scenario scenario = {.spec = {.dim = 40, .scan = scan}};
      scenario.AddGeneration(CorpusFamily::kGaussian, kRows, RankOrder::kShuffled, false, random_);
      scenario.AddQueries(queries, 3, QueryFamily::kGaussian, random_);
      std::vector<double> numbers(kRows, 0.0);
      numbers[kRows - 1] = 1'000.0;
      numbers[17] = std::numeric_limits<double>::quiet_NaN();
      const TermParameters lifts = {.form = TermForm::kLinear, .missing = 500.0};
      const auto terms =
          std::make_shared<testing::TestTerms>(testing::DrawnTerms{.terms = {{lifts, {numbers}}}});
      scenario.terms.assign(static_cast<size_t>(queries), terms);
      ExpectReferenceAnswers(*backend_, scenario);
    }
  }
}

// Bounds of scores are far above the final scores, so they must give no floor without the terms.
TEST_P(TermSearchTest, ATermLowersAllRows) {
  constexpr int64_t kRows = 5'000;
  for (const int64_t queries : {1, 8}) {
    Scenario scenario = {.spec = {.dim = 40, .scan = ScanChoice::kInt8}};
    scenario.AddGeneration(CorpusFamily::kGaussian, kRows, RankOrder::kShuffled, false, random_);
    scenario.AddQueries(queries, 5, QueryFamily::kGaussian, random_);
    const std::vector<double> numbers(kRows, -1'000.0);
    const auto terms =
        std::make_shared<testing::TestTerms>(testing::DrawnTerms{.terms = {{{}, {numbers}}}});
    scenario.terms.assign(static_cast<size_t>(queries), terms);
    ExpectReferenceAnswers(*backend_, scenario);
  }
}

// Terms that do not change the order must not make codes useless.
TEST_P(TermSearchTest, CodesRuleOutAllButAFewRows) {
  constexpr int64_t kRows = 6'000;
  for (const int64_t queries : {1, 20}) {
    Scenario scenario = {.spec = {.dim = 64, .scan = ScanChoice::kInt8}};
    scenario.AddGeneration(CorpusFamily::kGaussian, kRows, RankOrder::kShuffled, false, random_);
    scenario.AddQueries(queries, 10, QueryFamily::kGaussian, random_);
    std::vector<double> numbers(kRows);
    for (int64_t row = 0; row < kRows; ++row) numbers[static_cast<size_t>(row)] = random_.Unit();
    const TermParameters small = {.form = TermForm::kHalfLife, .weight = 3.0};
    const auto terms =
        std::make_shared<testing::TestTerms>(testing::DrawnTerms{.terms = {{small, {numbers}}}});
    scenario.terms.assign(static_cast<size_t>(queries), terms);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_EQ(cost.queries_of_codes, queries);
    EXPECT_LE(cost.candidates, queries * kRows / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, TermSearchTest,
                         ::testing::Combine(::testing::ValuesIn(CpuInstructionSets()),
                                            ::testing::Values(1, 5)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  std::to_string(std::get<1>(test.param)) + "threads";
                         });

}  // namespace
}  // namespace nearfield::cpu
