// Tests scans of rows for many queries, in tiles on the tensor cores: exact to the bit on every
// family of rows, and where sums lie next to a place at which scores are rounded.
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/gpu/gpu_topk_engine.h"
#include "engine/gpu/row_search.h"
#include "engine/gpu/search_job.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

// Answers every search by a scan of the rows, in tiles.
class RowScanEngine : public GpuTopkEngine {
 public:
  explicit RowScanEngine(std::shared_ptr<GpuCore> core)
      : GpuTopkEngine(core, {.k_max = kSelectKMax}), core_(std::move(core)) {}

  absl::Status Search(const backend::RowFormat& format,
                      absl::Span<const backend::GenerationView> generations,
                      const backend::QueryTile& tile, backend::RankedLists* best,
                      backend::ScanCost* cost) override {
    ABSL_ASSIGN_OR_RETURN(SearchJob job, MakeJob(*core_, info(), {format, generations, tile}));
    best->Reset(tile.k, generations.size());
    SearchOutput out = {.best = *best, .cost = {}};
    ABSL_RETURN_IF_ERROR(core_->Bind());
    ABSL_RETURN_IF_ERROR(
        RowSearch(*core_, plan::UseTiles::kAlways).Search(job, AllQueries(job), out));
    if (cost != nullptr) *cost = out.cost;
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<GpuCore> core_;
};

class TileScanTest : public RowPathTest {
 protected:
  void SetUp() override { UseEngine<RowScanEngine>(256 * kMiB); }
};

TEST_F(TileScanTest, SmokeEqualsTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    for (int metric = 1; metric < 4; ++metric) {
      Scenario scenario = {.spec = AnySpec(300)};
      scenario.spec.metric = static_cast<Metric>(metric);
      for (int64_t g = random_.Between(1, 5); g > 0; --g) {
        AddRows(scenario, family, random_.Between(1, 700), random_.OneIn(2));
      }
      for (int64_t q = random_.Between(1, 150); q > 0; --q) {
        scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 300)),
                            random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
      }
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST_F(TileScanTest, EqualsTheReferenceOnEveryDimension) {
  std::vector<int32_t> dims = {255, 256, 257, 384, 1000, 1024, 4096, 8191, 8192};
  for (int32_t dim = 1; dim <= 162; ++dim) dims.push_back(dim);
  for (const int32_t dim : dims) {
    SCOPED_TRACE(dim);
    Scenario scenario = {.spec = AnySpec(2)};
    scenario.spec.dim = dim;
    AddRows(scenario, CorpusFamily::kBitPatterns, random_.Between(1, 150));
    scenario.AddQueries(random_.Between(1, 70), static_cast<int32_t>(random_.Between(1, 150)),
                        QueryFamily::kGaussian, random_);
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

TEST_F(TileScanTest, RowsThatCancelOrAreExtremeEqualTheReference) {
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    CollectionSpec spec = AnySpec(2);
    spec.dim = static_cast<int32_t>(random_.Between(5, 300));
    spec.metric = metric;
    spec.row_type = RowType::kFloat32;
    ExpectReferenceAnswers(*backend_, testing::CancellingScenario(spec, 2'000, 80, random_));
    for (const int exponent : {-149, -126, -70, 58, 62, 125}) {
      SCOPED_TRACE(exponent);
      ExpectReferenceAnswers(*backend_,
                             testing::ExtremeScenario(spec, 2'000, 80, exponent, random_));
      if (HasFailure()) return;
    }
  }
}

// Sums of exactly 0 are listed: their neighbors have other scores. A few are scored again; for many
// there is no room, and the scan is repeated without tiles.
TEST_F(TileScanTest, SmokeSumsThatAreZeroAreScoredCanonically) {
  for (const int64_t rows : {200, 30'000}) {
    Scenario scenario = {.spec = AnySpec(2)};
    scenario.spec.dim = 100;
    scenario.spec.metric = Metric::kDot;
    // No deleted rows: 12,272 rows are scanned at once, and 32 queries with 99 of 100 of them are
    // more than the 262,144 pairs for which there is room.
    AddRows(scenario, CorpusFamily::kOneHot, rows);
    // More neighbors than rows with another sum, so that sums of zero are in the answer.
    scenario.AddQueries(32, 700, QueryFamily::kOneHot, random_);
    ExpectReferenceAnswers(*backend_, scenario);
  }
}

// Elements whose exact sum lies in the middle between two scores: the rounding of the additions,
// and so their order, decides which of them is the score.
std::vector<float> RowWithASumBetweenScores(int32_t dim, Random& random) {
  constexpr double kMiddle = 8.0 + 0x1p-21;  // scores near 8 are multiples of 2^-20
  std::vector<float> row(static_cast<size_t>(dim));
  long double left = kMiddle;  // sums of multiples of 2^-58 below 32: exact in 64 bits
  for (int32_t d = 0; d + 3 < dim; ++d) {
    const auto value = static_cast<double>(random.Between(-(1 << 23), 1 << 23));
    row[static_cast<size_t>(d)] = static_cast<float>(std::ldexp(value, d % 2 == 0 ? -23 : -58));
    left -= static_cast<long double>(row[static_cast<size_t>(d)]);
  }
  for (int32_t d = dim - 3; d < dim; ++d) {
    row[static_cast<size_t>(d)] = static_cast<float>(left);
    left -= static_cast<long double>(row[static_cast<size_t>(d)]);
  }
  return row;
}

TEST_F(TileScanTest, SmokeSumsBetweenTwoScoresAreScoredCanonically) {
  constexpr int64_t kQueries = 5;
  Scenario scenario = {.spec = {.dim = 128, .metric = Metric::kDot, .scan = ScanChoice::kRows}};
  Corpus corpus = MakeCorpus(scenario.spec, CorpusFamily::kAllZero, 500, random_.Bits());
  for (int64_t row = 0; row < corpus.rows_count(); ++row) {
    const std::vector<float> values = RowWithASumBetweenScores(scenario.spec.dim, random_);
    std::memcpy(corpus.rows.data() + row * corpus.row_bytes(), values.data(),
                values.size() * sizeof(float));
  }
  scenario.generations.push_back(
      testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
  scenario.queries.assign(static_cast<size_t>(scenario.spec.dim * kQueries), 1.0f);
  scenario.k.assign(kQueries, 500);
  ExpectReferenceAnswers(*backend_, scenario);
}

}  // namespace
}  // namespace nearfield::gpu
