// Tests searches by codes on the GPU: exact to the bit on adversarial rows, and on the intended
// path.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/gpu/gpu_certified_fixture.h"

namespace nearfield::gpu {
namespace {

constexpr std::array kQueryCounts = {1, 2, 17, 40, 130};

TEST_F(GpuCertifiedTest, SmokeEqualsTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnyCodesSpec(300)};
    AddSome(scenario, family, 40);
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// Enough queries for the scan that holds them in registers, which runs after the first stage. They
// have all scales, some are zero, and the last block is not full.
TEST_F(GpuCertifiedTest, SmokeGreatBatchesEqualTheReferenceOnEveryFamily) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    SCOPED_TRACE(testing::Name(family));
    Scenario scenario = {.spec = AnyCodesSpec(200)};
    AddStages(scenario, family, random_.Between(65, 140));
    ExpectReferenceAnswers(*backend_, scenario);
    if (HasFailure()) return;
  }
}

// The kernels of a lesser GPU, in every width of a block: 16, 32, 64 and 128 queries.
TEST_F(GpuCertifiedTest, BatchesOfLesserGpusEqualTheReference) {
  for (const int32_t capability : {75, 80, 86}) {
    backend_.reset();
    backend_ = MakeEngine(1024 * kMiB, 1024 * kMiB, capability);
    ASSERT_NE(backend_, nullptr);
    for (const int64_t queries : {5, 17, 40, 130}) {
      SCOPED_TRACE(::testing::Message() << capability << ", " << queries << " queries");
      Scenario scenario = {.spec = AnyCodesSpec(600)};
      AddRows(scenario, CorpusFamily::kGaussian, random_.Between(4'500, 9'000), true);
      AddRows(scenario, CorpusFamily::kClustered, random_.Between(1, 1'500));
      scenario.AddQueries(queries, static_cast<int32_t>(random_.Between(1, 50)),
                          QueryFamily::kGaussian, random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

// Dimensions at the limits of slices, groups, steps, and of queries passed as kernel parameters.
TEST_F(GpuCertifiedTest, EqualsTheReferenceOnEveryDimension) {
  for (const int32_t dim : {1, 127, 128, 129, 256, 257, 384, 511, 513, 640, 768, 896, 1024, 1025,
                            1536, 1537, 2048, 4096, 8192}) {
    SCOPED_TRACE(dim);
    if (dim > backend_->info().scan_dim_max) continue;
    for (const int64_t queries : {1, 33, 70}) {
      Scenario scenario = {.spec = CodesSpec(dim)};
      scenario.spec.metric = static_cast<Metric>(random_.Between(1, 4));
      const int64_t rows_least = queries > 64 ? 4'500 : 100;
      AddRows(scenario, CorpusFamily::kGaussian,
              dim > 1024 ? 700 : random_.Between(rows_least, 9'000));
      scenario.AddQueries(queries, static_cast<int32_t>(random_.Between(1, 50)),
                          QueryFamily::kGaussian, random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST_F(GpuCertifiedTest, CodesRuleOutAllButAFewRows) {
  for (const int64_t queries : kQueryCounts) {
    for (const ScanChoice scan : kCodes) {
      Scenario scenario = {.spec = {.dim = 64, .scan = scan}};
      AddRows(scenario, CorpusFamily::kGaussian, 60'000);
      scenario.AddQueries(queries, 10, QueryFamily::kGaussian, random_);
      const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
      EXPECT_EQ(cost.queries_of_codes, queries);
      EXPECT_EQ(cost.escalations.tighter, 0);
      EXPECT_EQ(cost.escalations.canonical, 0);
      EXPECT_GE(cost.candidates, queries * 10);
      // Second codes leave hardly more than the answer. The threshold of one query comes from
      // samples, that of a batch from all rows that the first codes left.
      const int64_t most = scan == ScanChoice::kInt8 ? 60'000 / 50 : queries == 1 ? 60 : 12;
      EXPECT_LE(cost.candidates, queries * most);
    }
  }
}

// Only candidates cross the link, or all rows if there are too many candidates.
TEST_F(GpuCertifiedTest, RowsOnTheHostGiveTheSameAnswers) {
  for (const CorpusFamily family :
       {CorpusFamily::kGaussian, CorpusFamily::kClustered, CorpusFamily::kAllEqual}) {
    for (const RowType row_type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      Scenario scenario = {.spec = CodesSpec(static_cast<int32_t>(random_.Between(1, 300)))};
      scenario.spec.metric = static_cast<Metric>(random_.Between(1, 4));
      scenario.spec.row_type = row_type;
      scenario.spec.rows = RowPlacement::kHost;
      AddRows(scenario, family, random_.Between(9'000, 20'000), true);
      AddRows(scenario, family, random_.Between(1, 3'000));
      scenario.AddQueries(1, 10, QueryFamily::kGaussian, random_);
      const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
      EXPECT_EQ(cost.queries_of_codes + cost.escalations.canonical, 1);
      scenario.AddQueries(40, 7, QueryFamily::kRow, random_);
      scenario.AddQueries(1, 2000, QueryFamily::kGaussian, random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

// The bounds of second codes do not show which rows are the best. Without other rows, the threshold
// lies among those of the near ties.
TEST_F(GpuCertifiedTest, NearTiesOfSecondCodesEqualTheReference) {
  for (const int32_t dim : {64, 200, 1024}) {
    for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
      const Scenario scenario = testing::NearTiesScenario(
          {.dim = dim, .metric = metric, .scan = ScanChoice::kInt16}, 1000, random_);
      EXPECT_EQ(ExpectReferenceAnswers(*backend_, scenario).queries_of_codes, 1);
      if (HasFailure()) return;
    }
  }
}

TEST_F(GpuCertifiedTest, RowsWhoseProductsCancelEqualTheReference) {
  for (const int32_t dim : {64, 200, 1024}) {
    for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
      CollectionSpec spec = CodesSpec(dim);
      spec.metric = metric;
      for (const int32_t queries : {1, 40, 80}) {
        ExpectReferenceAnswers(*backend_,
                               testing::CancellingScenario(spec, 9000, queries, random_));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(GpuCertifiedTest, RowsOfExtremeMagnitudeEqualTheReference) {
  for (const int exponent : {-149, -126, -70, 58, 62, 125}) {
    SCOPED_TRACE(exponent);
    CollectionSpec spec = CodesSpec(96);
    spec.metric = static_cast<Metric>(random_.Between(1, 4));
    for (const int32_t queries : {1, 34, 80}) {
      ExpectReferenceAnswers(*backend_,
                             testing::ExtremeScenario(spec, 5000, queries, exponent, random_));
      if (HasFailure()) return;
    }
  }
}

// All rows score the same, so no threshold is above any of them.
TEST_F(GpuCertifiedTest, TiesBeyondAllRoomAreAnsweredFromTheRows) {
  for (const int64_t queries : {1, 6, 70}) {
    Scenario scenario = {.spec = CodesSpec(32)};
    AddRows(scenario, CorpusFamily::kAllEqual, 70'000);
    scenario.AddQueries(queries, 10, QueryFamily::kGaussian, random_);
    const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
    EXPECT_EQ(cost.queries_of_codes, 0);
    EXPECT_EQ(cost.escalations.canonical, queries);
  }
}

// Rows of one score in three generations: fewer than the keys of an answer have room for, and more,
// so that the first of each generation must be found.
TEST_F(GpuCertifiedTest, SmokeTiesAcrossGenerationsAreAnsweredWhole) {
  constexpr int32_t kNeighbors = 10;
  for (const int64_t ties : {3, 12, 30, 200}) {
    for (const int64_t queries : {5, 70}) {
      SCOPED_TRACE(::testing::Message() << ties << " per generation, " << queries << " queries");
      Scenario scenario = {.spec = CodesSpec(32)};
      scenario.AddGeneration(CorpusFamily::kGaussian, 3'000, RankOrder::kShuffled, false, random_);
      scenario.AddGeneration(CorpusFamily::kGaussian, 2'000, RankOrder::kShuffled, false, random_);
      scenario.AddGeneration(CorpusFamily::kGaussian, 1'000, RankOrder::kShuffled, false, random_);
      scenario.AddQueries(1, kNeighbors, QueryFamily::kGaussian, random_);
      const std::vector<float> query = scenario.queries;
      std::vector<float> best;
      for (const float value : query) best.push_back(8 * value);
      for (int64_t q = 1; q < queries; ++q) {
        scenario.queries.insert(scenario.queries.end(), query.begin(), query.end());
        scenario.k.push_back(kNeighbors);
      }
      for (HostGeneration& generation : scenario.generations) {
        const int64_t distance = generation.corpus.rows_count() / ties;
        for (int64_t i = 0; i < ties; ++i) {
          std::memcpy(generation.corpus.rows.data() + i * distance * generation.corpus.row_bytes(),
                      best.data(), best.size() * sizeof(float));
        }
      }
      const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
      EXPECT_EQ(cost.escalations.tighter, 0);
    }
  }
}

// Few groups of lanes scan all of the best rows, so the first threshold leaves more candidates than
// there is room for. The second does not.
TEST_F(GpuCertifiedTest, AThresholdThatIsTooLowIsRaised) {
  const std::shared_ptr<GpuCore> core = MakeCore(4 * kMiB);
  ASSERT_NE(core, nullptr);
  if (!core->has_one_query_kernel()) GTEST_SKIP() << "only the kernel for one query raises it";
  int device = 0;
  cudaDeviceProp properties = {};
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  ASSERT_EQ(cudaGetDeviceProperties(&properties, device), cudaSuccess);
  // Distance between the row indices that one group of lanes scans, at 8 one-slice rows per group.
  const int64_t stride = int64_t{properties.multiProcessorCount} * 16 * 32;
  constexpr int64_t kRounds = 6;
  constexpr int64_t kGood = 1700;  // per round: 10,200 in all, more than there is room for
  Scenario scenario = {.spec = CodesSpec(2)};
  Corpus corpus =
      MakeCorpus(scenario.spec, CorpusFamily::kAllZero, kRounds * stride, random_.Bits());
  for (int64_t row = 0; row < corpus.rows_count(); ++row) {
    const bool good = row % stride < kGood;
    const float value = good ? 100.0f + random_.Gaussian() : random_.Gaussian();
    const float values[2] = {value, value};
    std::memcpy(corpus.rows.data() + row * 8, values, sizeof(values));
  }
  scenario.generations.push_back(
      testing::MakeGeneration(std::move(corpus), RankOrder::kShuffled, false, random_));
  scenario.queries = {1.0f, 1.0f};
  scenario.k = {300};
  const backend::ScanCost cost = ExpectReferenceAnswers(*backend_, scenario);
  EXPECT_EQ(cost.escalations.tighter, 1);
  EXPECT_EQ(cost.escalations.canonical, 0);
  EXPECT_EQ(cost.queries_of_codes, 1);
}

// A compaction copies codes and bounds to other slots.
TEST_F(GpuCertifiedTest, CodesCopiedToAnotherGenerationEqualTheReference) {
  const CollectionSpec spec = CodesSpec(64);
  const HostGeneration source =
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kOutliers, 9'000, random_.Bits()),
                              RankOrder::kShuffled, false, random_);
  const LoadedGeneration loaded = testing::Load(*backend_, source);
  ASSERT_NE(loaded.planes, nullptr);
  std::vector<int64_t> indices = testing::AllIndices(source.corpus.rows_count());
  random_.Shuffle(indices);
  const std::vector<uint32_t> slots(indices.begin(), indices.end());
  const HostGeneration copy = testing::MakeGeneration(testing::Select(source.corpus, indices),
                                                      RankOrder::kShuffled, false, random_);
  const backend::RowFormat format = testing::FormatOf(spec);
  ASSERT_OK_AND_ASSIGN(auto planes, backend_->Reserve(format, copy.corpus.rows_count()));
  ASSERT_OK(planes->AppendFrom(*loaded.planes, slots));
  ASSERT_OK(planes->Seal({.ranks = copy.ranks}));
  const backend::GenerationView view = {
      .planes = planes.get(), .tombstones = nullptr, .rows_live = copy.rows_live};
  const testing::ReferenceRows reference(copy);
  for (const size_t queries : {size_t{1}, size_t{80}}) {
    std::vector<float> vectors;
    for (size_t q = 0; q < queries; ++q) {
      const std::vector<float> query = MakeQuery(copy.corpus, QueryFamily::kRow, random_);
      vectors.insert(vectors.end(), query.begin(), query.end());
    }
    const std::vector<int32_t> k(queries, 10);
    const backend::QueryTile tile = testing::TileOf(vectors, k);
    backend::RankedLists best;
    ASSERT_OK(backend_->Search(format, {&view, 1}, tile, &best, nullptr));
    for (size_t q = 0; q < queries; ++q) {
      const absl::Span<const float> query = absl::MakeConstSpan(vectors).subspan(q * 64, 64);
      EXPECT_EQ(ToBits(best.list(q, 0)), ToBits(reference.Top(query, 10)));
    }
  }
}

// The caller of a large search may cancel it while its batches run.
TEST_F(GpuCertifiedTest, ACancelledBatchSearchStops) {
  const CollectionSpec spec = CodesSpec(32);
  const LoadedGeneration loaded = testing::Load(
      *backend_,
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, 9'000, random_.Bits()),
                              RankOrder::kShuffled, false, random_));
  ASSERT_NE(loaded.planes, nullptr);
  const std::vector<float> queries(80 * 32, 1.0f);
  const std::vector<int32_t> k(80, 5);
  const backend::QueryTile tile = {
      .queries = queries.data(), .k = k, .cancelled = [] { return true; }};
  backend::RankedLists best;
  EXPECT_THAT(backend_->Search(testing::FormatOf(spec), {&loaded.view, 1}, tile, &best, nullptr),
              StatusIs(kCancelled));
}

TEST_F(GpuCertifiedTest, CodesAreCounted) {
  const backend::RowFormat rows = {.dim = 1024};
  backend::RowFormat codes = rows;
  codes.scan = testing::FormatOf(CodesSpec(1024)).scan;
  constexpr int64_t kRows = 20'000;
  const int64_t before = backend_->device_bytes_used();
  ASSERT_OK_AND_ASSIGN(const auto plain, backend_->Reserve(rows, kRows));
  const int64_t of_rows = backend_->device_bytes_used() - before;
  ASSERT_OK_AND_ASSIGN(const auto coded, backend_->Reserve(codes, kRows));
  const int64_t of_both = backend_->device_bytes_used() - before - of_rows;
  EXPECT_GE(of_both - of_rows, kRows * (1024 + 16));
  EXPECT_EQ(coded->device_bytes(), of_both);
}

}  // namespace
}  // namespace nearfield::gpu
