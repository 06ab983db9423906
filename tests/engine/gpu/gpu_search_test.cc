// Compares searches of the GPU backend with engine/score, bit for bit.

#include <algorithm>
#include <string>
#include <vector>

#include "engine/gpu/runtime/probe_gpu.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

constexpr RankOrder kRankOrders[] = {RankOrder::kShuffled, RankOrder::kAscending,
                                     RankOrder::kDescending};

// Generations, queries, and the k of each query.
struct Scenario {
  CollectionSpec spec;
  std::vector<HostGeneration> generations;
  std::vector<float> queries;
  std::vector<int32_t> k;

  void AddQuery(QueryFamily family, int32_t wanted, Random& random) {
    const std::vector<float> query = MakeQuery(generations[0].corpus, family, random);
    queries.insert(queries.end(), query.begin(), query.end());
    k.push_back(wanted);
  }
};

Scenario MakeScenario(const CollectionSpec& spec, CorpusFamily family, Random& random) {
  Scenario scenario;
  scenario.spec = spec;
  const int64_t generations = random.Between(1, 5);
  for (int64_t g = 0; g < generations; ++g) {
    const int64_t rows = random.OneIn(3) ? random.Between(1, 70) : random.Between(1, 3000);
    scenario.generations.push_back(
        testing::MakeGeneration(MakeCorpus(spec, family, rows, random.Bits()),
                                random.OneOf<RankOrder>(kRankOrders), random.OneIn(2), random));
  }
  const int64_t queries = random.OneIn(3) ? 1 : random.Between(2, 20);
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t rows = scenario.generations[0].rows_live;
    const int64_t k = random.OneIn(2) ? random.Between(1, 20) : rows + random.Between(-1, 2);
    scenario.AddQuery(random.OneOf<QueryFamily>(testing::kQueryFamilies),
                      static_cast<int32_t>(std::max<int64_t>(1, k)), random);
  }
  return scenario;
}

void ExpectReferenceAnswers(backend::Backend& backend, const Scenario& scenario,
                            backend::ScanCost* cost = nullptr) {
  std::vector<LoadedGeneration> loaded;
  std::vector<backend::GenerationView> views;
  std::vector<testing::ReferenceRows> reference;
  for (const HostGeneration& generation : scenario.generations) {
    loaded.push_back(testing::Load(backend, generation));
    views.push_back(loaded.back().view);
    reference.emplace_back(generation);
  }
  const backend::QueryTile tile = testing::TileOf(scenario.queries, scenario.k);
  backend::RankedLists best;
  ASSERT_OK(backend.Search(testing::FormatOf(scenario.spec), views, tile, &best, cost));
  ASSERT_EQ(best.queries_count(), scenario.k.size());
  ASSERT_EQ(best.generations_count(), views.size());
  const auto dim = static_cast<size_t>(scenario.spec.dim);
  for (size_t q = 0; q < scenario.k.size(); ++q) {
    const absl::Span<const float> query(scenario.queries.data() + q * dim, dim);
    for (size_t g = 0; g < views.size(); ++g) {
      ASSERT_EQ(ToBits(best.list(q, g)), ToBits(reference[g].Top(query, scenario.k[q])))
          << testing::Describe(scenario.spec) << ", query " << q << " of " << scenario.k.size()
          << ", k = " << scenario.k[q] << ", generation " << g << " of "
          << scenario.generations[g].corpus.rows_count() << " rows, "
          << scenario.generations[g].rows_live << " live";
    }
  }
}

class GpuSearchTest : public GpuTest {};

TEST_F(GpuSearchTest, SmokeOneGenerationOfEachRowTypeAndMetric) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  for (const Metric metric : kMetrics) {
    for (const RowType row_type : kRowTypes) {
      Scenario scenario;
      scenario.spec = {.dim = 161, .metric = metric, .row_type = row_type};
      scenario.generations.push_back(testing::MakeGeneration(
          MakeCorpus(scenario.spec, CorpusFamily::kGaussian, 1500, random_.Bits()),
          RankOrder::kShuffled, true, random_));
      for (const int32_t k : {1, 10, 1000}) scenario.AddQuery(QueryFamily::kGaussian, k, random_);
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
        ExpectReferenceAnswers(*backend, MakeScenario(spec, family, random_));
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
      Scenario scenario;
      scenario.spec = {.dim = static_cast<int32_t>(random_.Between(32, 300)),
                       .metric = random_.OneOf<Metric>(kMetrics),
                       .row_type = row_type,
                       .scan = scan};
      int64_t rows_count = 0;
      for (int64_t g = random_.Between(1, 4); g > 0; --g) {
        const int64_t rows = random_.Between(4000, 9000);
        rows_count += rows;
        scenario.generations.push_back(testing::MakeGeneration(
            MakeCorpus(scenario.spec, CorpusFamily::kGaussian, rows, random_.Bits()),
            RankOrder::kShuffled, false, random_));
        // At most one row in 32 is live, including up to 63 bits after the last row, which read as
        // live.
        LeaveLive(random_.Between(1, rows / 32 - 62), random_, scenario.generations.back());
      }
      for (int64_t q = random_.Between(1, 12); q > 0; --q) {
        scenario.AddQuery(QueryFamily::kGaussian, static_cast<int32_t>(random_.Between(1, 300)),
                          random_);
      }
      backend::ScanCost cost;
      ExpectReferenceAnswers(*backend, scenario, &cost);
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
        Scenario scenario;
        scenario.spec = {.dim = dim, .metric = metric, .row_type = row_type};
        const int64_t rows = random_.Between(1, dim > 1000 ? 40 : 100);
        scenario.generations.push_back(testing::MakeGeneration(
            MakeCorpus(scenario.spec, CorpusFamily::kBitPatterns, rows, random_.Bits()),
            RankOrder::kShuffled, false, random_));
        const int64_t queries = random_.Between(1, 12);
        for (int64_t q = 0; q < queries; ++q) {
          scenario.AddQuery(QueryFamily::kGaussian, static_cast<int32_t>(rows), random_);
        }
        ExpectReferenceAnswers(*backend, scenario);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(GpuSearchTest, LargeKAndEveryOrderOfScores) {
  // One dimension and a query of 1: the score is the row's value, here ascending, descending and
  // all equal.
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  constexpr int64_t kRows = 30'000;
  for (const int32_t direction : {1, -1, 0}) {
    for (const RankOrder order : kRankOrders) {
      Scenario scenario;
      scenario.spec.dim = 1;
      Corpus corpus;
      corpus.spec = scenario.spec;
      corpus.ids = MakeIds(IdType::kUint64, kRows, random_.Bits());
      for (int64_t r = 0; r < kRows; ++r) {
        const auto value = static_cast<float>(direction * (r - kRows / 2));
        const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
        corpus.rows.insert(corpus.rows.end(), bytes, bytes + sizeof(value));
      }
      scenario.generations.push_back(
          testing::MakeGeneration(std::move(corpus), order, random_.OneIn(2), random_));
      scenario.queries = {1.0f, -1.0f, 0.0f};
      scenario.k = {kKMax + 1, 4096, 1000};
      ExpectReferenceAnswers(*backend, scenario);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(GpuSearchTest, AGenerationBeyondTheKeyWorkspaceIsScannedInParts) {
  // 4 MiB of keys: eight queries leave room for about 61,000 rows at a time, so the best keys so
  // far are carried over.
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  Scenario scenario;
  scenario.spec = {.dim = 3, .metric = Metric::kL2, .row_type = RowType::kFloat32};
  for (const int64_t rows : {int64_t{500}, int64_t{200'001}, int64_t{61'000}, int64_t{7}}) {
    scenario.generations.push_back(testing::MakeGeneration(
        MakeCorpus(scenario.spec, CorpusFamily::kGaussian, rows, random_.Bits()),
        RankOrder::kShuffled, true, random_));
  }
  for (const int32_t k : {1, 5, 100, 1024, 1025, 4096, 4097, 64, 9}) {
    scenario.AddQuery(QueryFamily::kGaussian, k, random_);
  }
  ExpectReferenceAnswers(*backend, scenario);
}

TEST_F(GpuSearchTest, ABatchEqualsItsQueriesOneByOne) {
  const auto backend = MakeEngine(256 * kMiB);
  ASSERT_NE(backend, nullptr);
  const CollectionSpec spec = {.dim = 70, .metric = Metric::kCosine, .row_type = RowType::kFloat16};
  Scenario scenario;
  scenario.spec = spec;
  scenario.generations.push_back(
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kNearTies, 20'000, random_.Bits()),
                              RankOrder::kShuffled, true, random_));
  for (int32_t q = 0; q < 200; ++q) {
    scenario.AddQuery(QueryFamily::kGaussian, 1 + q % 30, random_);
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
  backend::QueryTile tile = testing::TileOf(queries, k);
  tile.cancelled = [] { return true; };
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
  Scenario scenario;
  scenario.spec.dim = 24;
  for (int i = 0; i < 4; ++i) {
    scenario.generations.push_back(testing::MakeGeneration(
        MakeCorpus(scenario.spec, CorpusFamily::kGaussian, 500, random_.Bits()),
        RankOrder::kShuffled, false, random_));
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
  backend::QueryTile tile;
  backend::RankedLists best;
  tile.queries = queries.data();
  const std::vector<int32_t> zero = {1, 0};
  tile.k = zero;
  EXPECT_THAT(backend->Search({.dim = 1}, {}, tile, &best, nullptr),
              StatusIs(kInvalidArgument, HasSubstr("queries[1].k = 0")));
  const std::vector<int32_t> many(1025, 1);
  tile.k = many;
  EXPECT_THAT(backend->Search({.dim = 1}, {}, tile, &best, nullptr),
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
