// Tests batches that scan exact rows on the tensor cores: exact to the bit on adversarial rows,
// whatever path a search of these sizes would choose.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/batch_search.h"
#include "engine/gpu/gpu_topk_engine.h"
#include "engine/gpu/row_search.h"
#include "engine/gpu/search_job.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

// Answers every search by a row batch, and the queries that it leaves by a scan of the rows.
class RowBatchEngine : public GpuTopkEngine {
 public:
  explicit RowBatchEngine(std::shared_ptr<GpuCore> core)
      : GpuTopkEngine(core, {.k_max = kSelectKMax}), core_(std::move(core)) {}

  absl::Status Search(const backend::RowFormat& format,
                      absl::Span<const backend::GenerationView> generations,
                      const backend::QueryTile& tile, backend::RankedLists* best,
                      backend::ScanCost* cost) override {
    ABSL_ASSIGN_OR_RETURN(SearchJob job, MakeJob(*core_, info(), {format, generations, tile}));
    EXPECT_TRUE(BatchServesRows(*core_, job));
    const std::vector<backend::ViewGroup> groups = backend::GroupByViews(generations, tile);
    if (!tile.views.empty()) ABSL_RETURN_IF_ERROR(ShareViews(*core_, groups, job));
    best->Reset(tile.k, generations.size());
    job.corpus = CorpusOf(job);
    SearchOutput out = {.best = *best, .cost = {}};
    BatchLeft left;
    ABSL_RETURN_IF_ERROR(core_->Bind());
    ABSL_RETURN_IF_ERROR(BatchSearch(*core_).Search(job, {.source = BatchSource::kRows},
                                                    AllQueries(job), out, left));
    EXPECT_TRUE(left.singles.empty());
    out.cost.escalations.canonical = static_cast<int64_t>(left.overflowed.size());
    for (const backend::ViewGroup& group : groups) {
      std::vector<int64_t> of_rows;
      std::set_intersection(group.queries.begin(), group.queries.end(), left.overflowed.begin(),
                            left.overflowed.end(), std::back_inserter(of_rows));
      ABSL_RETURN_IF_ERROR(SetViews(*core_, group.views, job));
      ABSL_RETURN_IF_ERROR(RowSearch(*core_).Search(job, of_rows, out));
    }
    if (cost != nullptr) *cost = out.cost;
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<GpuCore> core_;
};

class RowBatchTest : public RowPathTest {
 protected:
  void SetUp() override { UseEngine<RowBatchEngine>(1024 * kMiB); }
};

TEST_F(RowBatchTest, SmokeEqualsTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnySpec(300)};
    AddRows(scenario, family, random_.Between(4'500, 8'000), random_.OneIn(2));
    const int64_t more_generations = random_.Between(0, 4);
    for (int64_t g = 0; g < more_generations; ++g) {
      AddRows(scenario, family, random_.Between(1, 1'500), random_.OneIn(2));
    }
    const int64_t queries = random_.OneIn(2) ? random_.Between(1, 40) : random_.Between(100, 140);
    for (int64_t q = 0; q < queries; ++q) {
      const int64_t k = random_.OneIn(6) ? random_.Between(1, 1025) : random_.Between(1, 25);
      scenario.AddQueries(1, static_cast<int32_t>(k),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

TEST_F(RowBatchTest, SmokeQueriesWithDifferentFiltersEqualTheReference) {
  for (const int64_t queries : {4, 40, 140}) {
    SCOPED_TRACE(queries);
    Scenario scenario = {.spec = AnySpec(200)};
    AddRows(scenario, CorpusFamily::kGaussian, random_.Between(20'000, 30'000), random_.OneIn(2));
    AddRows(scenario, CorpusFamily::kDuplicates, random_.Between(1, 5'000), random_.OneIn(2));
    for (int64_t q = 0; q < queries; ++q) {
      scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 30)),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
    scenario.AddFilters(random_);
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// Dimensions at the limits of steps and of interleaved blocks.
TEST_F(RowBatchTest, EqualsTheReferenceOnEveryDimension) {
  for (const int32_t dim : {1, 31, 32, 33, 64, 96, 127, 128, 129, 160, 256, 257, 384, 1000, 1024,
                            1025, 1536, 4096, 8192}) {
    SCOPED_TRACE(dim);
    if (dim > core_->batch_dim_max()) continue;
    for (const RowType row_type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      Scenario scenario = {.spec = AnySpec(2)};
      scenario.spec.dim = dim;
      scenario.spec.row_type = row_type;
      AddRows(scenario, CorpusFamily::kGaussian, dim > 1024 ? 700 : random_.Between(4'500, 9'000),
              true);
      scenario.AddQueries(random_.Between(1, 140), static_cast<int32_t>(random_.Between(1, 50)),
                          QueryFamily::kGaussian, random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST_F(RowBatchTest, RowsThatCancelOrAreExtremeEqualTheReference) {
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    CollectionSpec spec = AnySpec(2);
    spec.dim = static_cast<int32_t>(random_.Between(5, 300));
    spec.metric = metric;
    spec.row_type = RowType::kFloat32;
    ExpectReferenceAnswers(*backend_, testing::CancellingScenario(spec, 9'000, 80, random_));
    for (const int exponent : {-149, -126, -70, 58, 62, 125}) {
      SCOPED_TRACE(exponent);
      ExpectReferenceAnswers(*backend_,
                             testing::ExtremeScenario(spec, 5'000, 80, exponent, random_));
      if (HasFailure()) return;
    }
  }
}

TEST_F(RowBatchTest, BoundsRuleOutAllButAFewRows) {
  Scenario scenario = {.spec = AnySpec(2)};
  scenario.spec.dim = 384;
  scenario.spec.row_type = RowType::kFloat32;
  constexpr int64_t kRows = 60'000;
  AddRows(scenario, CorpusFamily::kGaussian, kRows, false);
  for (const int64_t queries : {2, 200, 700}) {
    scenario.queries.clear();
    scenario.k.clear();
    scenario.AddQueries(queries, 10, QueryFamily::kGaussian, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_EQ(cost.escalations.canonical, 0);
    EXPECT_EQ(cost.queries_of_codes, 0);
    EXPECT_GE(cost.candidates, queries * 10);
    EXPECT_LE(cost.candidates, queries * 60);
    const int64_t row_bytes = 384 * 4;
    EXPECT_LE(
        cost.bytes_read,
        row_bytes * (kRows * (CeilDiv(queries, int64_t{kRowBatchQueries}) + 1) + cost.candidates));
  }
}

// One dimension is large and constant, so codes of 8 bits leave thousands of rows of another score,
// and so does a scan of few generations with room for few ties.
TEST_F(RowBatchTest, TiesOfManyGenerationsAreAnsweredFromTheBatch) {
  CollectionSpec spec = AnySpec(2);
  spec.dim = 65;
  spec.metric = Metric::kCosine;
  spec.row_type = RowType::kFloat32;
  Scenario scenario = {.spec = spec};
  std::vector<float> one(65, 0.0f);
  for (int g = 0; g < 8; ++g) {
    Corpus corpus = MakeCorpus(spec, CorpusFamily::kAllZero, 2'000, random_.Bits());
    for (int64_t row = 0; row < corpus.rows_count(); ++row) {
      one.assign(one.size(), 0.0f);
      one[0] = 10.0f;
      one[static_cast<size_t>(1 + row % 64)] = 1.0f;
      std::memcpy(corpus.rows.data() + row * corpus.row_bytes(), one.data(), 65 * sizeof(float));
    }
    scenario.generations.push_back(
        testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
  }
  scenario.AddQueries(130, 10, QueryFamily::kRow, random_);
  const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
  EXPECT_EQ(cost.escalations.canonical, 0) << "250 rows tie, 80 of them suffice";
}

}  // namespace
}  // namespace nearfield::gpu
