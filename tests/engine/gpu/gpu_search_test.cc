// Compares searches of the GPU backend with engine/score, bit for bit.

#include <algorithm>
#include <string>
#include <vector>

#include "engine/cuda/probe_gpu.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

class GpuSearchTest : public GpuTest {
 protected:
  static constexpr ScenarioSizes kSizes = {
      .generations_end = 5, .rows_of_small_end = 70, .rows_end = 3000, .queries_end = 20};
};

TEST_F(GpuSearchTest, SmokeOneGenerationOfEachRowTypeAndMetric) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  for (const Metric metric : kMetrics) {
    for (const RowType row_type : kRowTypes) {
      Scenario scenario = {.spec = {.dim = 161, .metric = metric, .row_type = row_type}};
      scenario.AddGeneration(CorpusFamily::kGaussian, 1500, RankOrder::kShuffled, true, random_);
      for (const int32_t k : {1, 10, 1000})
        scenario.AddQueries(1, k, QueryFamily::kGaussian, random_);
      ExpectReferenceAnswers(*backend, scenario);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuSearchTest, EqualsTheReferenceOnEveryFamilyMetricAndRowType) {
  const auto backend = MakeEngine(128 * kMiB);
  ASSERT_NE(backend, nullptr);
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    for (const Metric metric : kMetrics) {
      for (const RowType row_type : kRowTypes) {
        const CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, 300)),
                                     .metric = metric,
                                     .row_type = row_type};
        SCOPED_TRACE(testing::Name(family));
        ExpectReferenceAnswers(*backend, DrawScenario(spec, family, kSizes, random_));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Deletes all rows except `live` random ones.
void LeaveLive(int64_t live, Random& random, HostGeneration& generation) {
  const int64_t rows = generation.corpus.rows_count();
  generation.deleted_words.assign(static_cast<size_t>((rows + 63) / 64), 0);
  for (int64_t slot = 0; slot < rows; ++slot) {
    generation.deleted_words[static_cast<size_t>(slot / 64)] |= uint64_t{1} << (slot % 64);
  }
  generation.rows_live = 0;
  while (generation.rows_live < live) {
    const int64_t slot = random.Between(0, rows - 1);
    if (!generation.deleted(slot)) continue;
    generation.deleted_words[static_cast<size_t>(slot / 64)] &= ~(uint64_t{1} << (slot % 64));
    ++generation.rows_live;
  }
}

TEST_F(GpuSearchTest, WhereFewRowsAreLiveNoOthersAreRead) {
  const auto backend = MakeEngine(128 * kMiB);
  ASSERT_NE(backend, nullptr);
  for (const ScanChoice scan : {ScanChoice::kRows, ScanChoice::kInt8}) {
    for (const RowType row_type : kRowTypes) {
      Scenario scenario = {.spec = {.dim = static_cast<int32_t>(random_.Between(32, 300)),
                                    .metric = random_.OneOf<Metric>(kMetrics),
                                    .row_type = row_type,
                                    .scan = scan}};
      int64_t rows_count = 0;
      for (int64_t g = random_.Between(1, 4); g > 0; --g) {
        const int64_t rows = random_.Between(4000, 9000);
        rows_count += rows;
        scenario.AddGeneration(CorpusFamily::kGaussian, rows, RankOrder::kShuffled, false, random_);
        // At most one row in 32 is live, including up to 63 bits after the last row, which read as
        // live.
        LeaveLive(random_.Between(1, rows / 32 - 62), random_, scenario.generations.back());
      }
      for (int64_t q = random_.OneIn(2) ? 40 : random_.Between(1, 12); q > 0; --q) {
        scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 300)),
                            QueryFamily::kGaussian, random_);
      }
      const backend::ScanCost cost = ExpectReferenceAnswers(*backend, scenario);
      if (HasFatalFailure()) return;
      EXPECT_EQ(cost.queries_of_codes, 0);
      EXPECT_LT(cost.bytes_read, rows_count * scenario.spec.dim);
    }
  }
}

TEST_F(GpuSearchTest, EqualsTheReferenceForEveryDimension) {
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  std::vector<int32_t> dims = {384, 768, 1000, 1024, 1536, 4096, 4097, 8191, 8192};
  for (int32_t dim = 1; dim <= 200; ++dim) dims.push_back(dim);
  for (const int32_t dim : dims) {
    for (const Metric metric : kMetrics) {
      for (const RowType row_type : kRowTypes) {
        Scenario scenario = {.spec = {.dim = dim, .metric = metric, .row_type = row_type}};
        const int64_t rows = random_.Between(1, dim > 1000 ? 40 : 100);
        scenario.AddGeneration(CorpusFamily::kBitPatterns, rows, RankOrder::kShuffled, false,
                               random_);
        scenario.AddQueries(random_.Between(1, 12), static_cast<int32_t>(rows),
                            QueryFamily::kGaussian, random_);
        ExpectReferenceAnswers(*backend, scenario);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuSearchTest, LargeKAndEveryOrderOfScores) {
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  for (const int32_t direction : {1, -1, 0}) {
    for (const RankOrder order : kRankOrders) {
      ExpectReferenceAnswers(*backend, OrderedScenario({}, direction, order, random_));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuSearchTest, AGenerationBeyondTheKeyWorkspaceIsScannedInParts) {
  // 4 MiB of keys: eight queries leave room for about 61,000 rows at a time, so the best keys so
  // far are carried over.
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  Scenario scenario = {.spec = {.dim = 3, .metric = Metric::kL2, .row_type = RowType::kFloat32}};
  for (const int64_t rows : {int64_t{500}, int64_t{200'001}, int64_t{61'000}, int64_t{7}}) {
    scenario.AddGeneration(CorpusFamily::kGaussian, rows, RankOrder::kShuffled, true, random_);
  }
  for (const int32_t k : {1, 5, 100, 1024, 1025, 4096, 4097, 64, 9}) {
    scenario.AddQueries(1, k, QueryFamily::kGaussian, random_);
  }
  ExpectReferenceAnswers(*backend, scenario);
}

TEST_F(GpuSearchTest, ABatchEqualsItsQueriesOneByOne) {
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  const CollectionSpec spec = {.dim = 70, .metric = Metric::kCosine, .row_type = RowType::kFloat16};
  Scenario scenario = {.spec = spec};
  scenario.AddGeneration(CorpusFamily::kNearTies, 20'000, RankOrder::kShuffled, true, random_);
  for (int32_t q = 0; q < 200; ++q) {
    scenario.AddQueries(1, 1 + q % 30, QueryFamily::kGaussian, random_);
  }
  const LoadedGeneration loaded = testing::Load(*backend, scenario.generations[0]);
  const backend::QueryTile batch = testing::TileOf(scenario.queries, scenario.k);
  backend::RankedLists together;
  ASSERT_OK(backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, batch, &together, nullptr));
  for (size_t q = 0; q < scenario.k.size(); ++q) {
    const backend::QueryTile one = testing::TileOf({scenario.queries.data() + q * 70, 70},
                                                   absl::MakeConstSpan(scenario.k).subspan(q, 1));
    backend::RankedLists alone;
    ASSERT_OK(backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, one, &alone, nullptr));
    ASSERT_EQ(ToBits(together.list(q, 0)), ToBits(alone.list(0, 0))) << "query " << q;
  }
}

TEST_F(GpuSearchTest, CancelledBeforeATile) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  const std::vector<float> queries(4, 1.0f);
  const std::vector<int32_t> k = {1};
  const backend::QueryTile tile = {
      .queries = queries.data(), .k = k, .cancelled = [] { return true; }};
  backend::RankedLists best;
  EXPECT_THAT(backend->Search({.dim = 4}, {}, tile, &best, nullptr), StatusIs(kCancelled));
}

TEST_F(GpuSearchTest, NoGenerationOrNoLiveRowGivesEmptyAnswers) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  const CollectionSpec spec = {.dim = 5};
  HostGeneration generation =
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, 70, random_.Bits()),
                              RankOrder::kShuffled, false, random_);
  generation.deleted_words = {~uint64_t{0}, ~uint64_t{0}};
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const std::vector<float> queries(5, 1.0f);
  const std::vector<int32_t> k = {3};
  const backend::QueryTile tile = testing::TileOf(queries, k);
  backend::RankedLists best;
  ASSERT_OK(backend->Search(testing::FormatOf(spec), {}, tile, &best, nullptr));
  EXPECT_EQ(best.queries_count(), 1u);
  EXPECT_EQ(best.generations_count(), 0u);
  // The view says that the rows are live, so they are scanned, but all are dead: the device counts
  // for itself.
  ASSERT_OK(backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, tile, &best, nullptr));
  EXPECT_TRUE(best.list(0, 0).empty());
}

// A generation without live rows is not scanned and has no list among the results.
TEST_F(GpuSearchTest, AGenerationWithoutLiveRowsBetweenOthersHasNoList) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  Scenario scenario = {.spec = {.dim = 24}};
  for (int i = 0; i < 4; ++i) {
    scenario.AddGeneration(CorpusFamily::kGaussian, 500, RankOrder::kShuffled, false, random_);
  }
  LeaveLive(0, random_, scenario.generations[0]);
  LeaveLive(0, random_, scenario.generations[2]);
  scenario.k = {7};
  scenario.queries = MakeQuery(scenario.generations[1].corpus, QueryFamily::kGaussian, random_);
  ExpectReferenceAnswers(*backend, scenario);
}

TEST_F(GpuSearchTest, RefusesWhatIsOutOfRangeByName) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(backend->info().k_max, kKMax + 1);
  EXPECT_EQ(backend->info().kind, BackendKind::kGpu);
  const std::vector<float> queries(2, 1.0f);
  backend::RankedLists best;
  const std::vector<int32_t> zero = {1, 0};
  EXPECT_THAT(backend->Search({.dim = 1}, {}, testing::TileOf(queries, zero), &best, nullptr),
              StatusIs(kInvalidArgument, HasSubstr("queries[1].k = 0")));
  const std::vector<int32_t> many(1025, 1);
  EXPECT_THAT(backend->Search({.dim = 1}, {}, testing::TileOf(queries, many), &best, nullptr),
              StatusIs(kInvalidArgument, HasSubstr("must be 0 .. 1024")));
}

TEST(GpuFactoryTest, RefusesOptionsByName) {
  EXPECT_THAT(MakeGpuTopkEngine({.memory_bytes = -1}),
              StatusIs(kInvalidArgument, HasSubstr("memory_bytes = -1")));
  EXPECT_THAT(MakeGpuTopkEngine({.k_max = kKMax + 2}),
              StatusIs(kInvalidArgument, HasSubstr("k_max = 4098")));
  EXPECT_THAT(MakeGpuTopkEngine({.batch_max = 0}),
              StatusIs(kInvalidArgument, HasSubstr("batch_max = 0")));
}

TEST(GpuFactoryTest, ProbeSaysWhyThereIsNoGpu) {
  const absl::Status probed = ProbeGpu(1'000'000);
  EXPECT_EQ(probed.code(), kFailedPrecondition);
  EXPECT_THAT(std::string(probed.message()),
              ::testing::AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no NVIDIA GPU"),
                               HasSubstr("device 1000000 asked for")));
}

}  // namespace
}  // namespace nearfield::gpu
