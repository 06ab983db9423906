// Tests searches with row terms on the GPU: exact to the bit, by codes and over the rows, and what
// the memory of their numbers allows.
#include <memory>
#include <utility>
#include <vector>

#include "engine/gpu/kernels/single/one_query.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/gpu/gpu_certified_fixture.h"
#include "tests/testing/row_terms.h"

namespace nearfield::gpu {
namespace {

class GpuTermsTest : public GpuCertifiedTest {
 protected:
  // Returns terms of one generation whose numbers are drawn.
  std::shared_ptr<const testing::TestTerms> Terms(int64_t count, int64_t rows_count) {
    testing::DrawnTerms drawn;
    for (int64_t i = 0; i < count; ++i) {
      testing::DrawnTerms::Term& term = drawn.terms.emplace_back();
      term.parameters = testing::DrawTerm(1.0, random_);
      std::vector<double>& numbers = term.numbers.emplace_back();
      for (int64_t row = 0; row < rows_count; ++row) {
        numbers.push_back(testing::DrawNumber(term.parameters, random_));
      }
    }
    return std::make_shared<testing::TestTerms>(std::move(drawn));
  }
};

TEST_F(GpuTermsTest, SmokeEqualsTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnyCodesSpec(300)};
    if (random_.OneIn(3)) scenario.spec.scan = ScanChoice::kRows;
    AddSome(scenario, family, 7);
    scenario.AddTerms(random_);
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// Enough rows and queries for several stages of a batch; some of the queries have filters, too.
TEST_F(GpuTermsTest, BatchesEqualTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnyCodesSpec(200)};
    AddStages(scenario, family,
              random_.OneIn(2) ? random_.Between(8, 40) : random_.Between(65, 140));
    scenario.AddTerms(random_);
    if (random_.OneIn(2)) scenario.AddFilters(random_);
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

TEST_F(GpuTermsTest, BatchesOfLesserGpusEqualTheReference) {
  for (const int32_t capability : {75, 80, 86}) {
    backend_.reset();
    backend_ = MakeEngine(1024 * kMiB, 1024 * kMiB, capability);
    ASSERT_NE(backend_, nullptr);
    for (const int64_t queries : {1, 17, 130}) {
      SCOPED_TRACE(::testing::Message() << capability << ", " << queries << " queries");
      Scenario scenario = {.spec = AnyCodesSpec(600)};
      AddRows(scenario, CorpusFamily::kGaussian, random_.Between(4'500, 9'000), true);
      AddRows(scenario, CorpusFamily::kClustered, random_.Between(1, 1'500));
      scenario.AddQueries(queries, static_cast<int32_t>(random_.Between(1, 50)),
                          QueryFamily::kGaussian, random_);
      scenario.AddTerms(random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

// Bounds of such rows say nothing: they are +inf or NaN.
TEST_F(GpuTermsTest, RowsOfExtremeMagnitudeEqualTheReference) {
  for (const int exponent : {-149, -70, 58, 62, 125}) {
    SCOPED_TRACE(exponent);
    CollectionSpec spec = CodesSpec(96);
    spec.metric = static_cast<Metric>(random_.Between(1, 4));
    for (const int32_t queries : {1, 20}) {
      Scenario scenario = testing::ExtremeScenario(spec, 700, queries, exponent, random_);
      scenario.AddTerms(random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST_F(GpuTermsTest, CodesRuleOutAllButAFewRows) {
  constexpr int64_t kRows = 60'000;
  for (const ScanChoice scan : kCodes) {
    Scenario scenario = {.spec = {.dim = 64, .scan = scan}};
    AddRows(scenario, CorpusFamily::kGaussian, kRows);
    scenario.AddQueries(5, 10, QueryFamily::kGaussian, random_);
    scenario.terms.assign(5, Terms(2, kRows));
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    if (testing::GpuCapabilityMax() == 0) {
      EXPECT_EQ(cost.queries_of_codes, 5);
      EXPECT_EQ(cost.escalations.canonical, 0);
      EXPECT_LE(cost.candidates, 5 * kRows / 50);
    }
    EXPECT_GE(cost.candidates, 5 * 10);
  }
}

// Equal final scores of more rows than there is room for: the rows are scored.
TEST_F(GpuTermsTest, TiesOfAllRowsEqualTheReference) {
  constexpr int64_t kRows = 20'000;
  Scenario scenario = {.spec = CodesSpec(40)};
  AddRows(scenario, CorpusFamily::kAllEqual, kRows);
  scenario.AddQueries(2, 30, QueryFamily::kGaussian, random_);
  testing::DrawnTerms drawn;
  drawn.terms.push_back(
      {.parameters = {.form = TermForm::kLinear}, .numbers = {std::vector<double>(kRows, 0.5)}});
  scenario.terms.assign(2, std::make_shared<testing::TestTerms>(std::move(drawn)));
  static_assert(kRows > kCandidatesMax);
  ExpectReferenceAnswers(*backend_, scenario);
}

class GpuTermMemoryTest : public GpuTermsTest {
 protected:
  static constexpr int64_t kRows = 20'000;

  void SetUp() override {
    GpuTermsTest::SetUp();
    if (IsSkipped()) return;
    backend_.reset();
    backend_ = MakeEngine(16 * kMiB);
    ASSERT_NE(backend_, nullptr);
    AddRows(scenario_, CorpusFamily::kGaussian, kRows);
    scenario_.AddQueries(1, 10, QueryFamily::kGaussian, random_);
  }

  Scenario scenario_ = {.spec = {.dim = 16, .scan = ScanChoice::kInt8}};
};

// The numbers of one query may take a sixteenth of the memory.
TEST_F(GpuTermMemoryTest, NumbersThatDoNotFitAreRefused) {
  const testing::LoadedGeneration loaded =
      testing::Load(*backend_, scenario_.generations[0], scenario_.spec);
  backend::QueryTile tile = testing::TileOf(scenario_.queries, scenario_.k);
  const auto search = [&](int64_t terms_count) {
    const auto terms = Terms(terms_count, kRows);
    const backend::TermSource* const of_query = terms.get();
    tile.terms = {&of_query, 1};
    backend::RankedLists best;
    return backend_->Search(testing::FormatOf(scenario_.spec), {&loaded.view, 1}, tile, &best,
                            nullptr);
  };
  for (int i = 0; i < 20; ++i) EXPECT_OK(search(2));  // the numbers of earlier searches give way
  EXPECT_THAT(search(16), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(search(2));
}

TEST_F(GpuTermMemoryTest, NumbersGiveWayToRows) {
  const int64_t used = backend_->device_bytes_used();
  scenario_.terms.assign(1, Terms(2, kRows));
  ExpectReferenceAnswers(*backend_, scenario_);
  EXPECT_EQ(backend_->device_bytes_used(), used);
  // Rows for all of the memory.
  const backend::RowFormat format = testing::FormatOf(scenario_.spec);
  int64_t rows_max = 0;
  for (int64_t step = 1 << 20; step > 0; step /= 2) {
    const auto bytes = backend_->DeviceBytesOf(format, rows_max + step);
    if (bytes.ok() && *bytes <= backend_->device_bytes_total() - used) rows_max += step;
  }
  ASSERT_OK_AND_ASSIGN(const auto planes, backend_->Reserve(format, rows_max));
  EXPECT_GT(planes->device_bytes(), backend_->device_bytes_total() * 9 / 10 - used);
}

}  // namespace
}  // namespace nearfield::gpu
