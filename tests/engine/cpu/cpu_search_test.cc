// Compares searches of the CPU backend with engine/score, bit for bit, for every instruction set,
// metric, row type and corpus family.

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_topk_engine.h"
#include "engine/score/score.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"

namespace nearfield::cpu {
namespace {

class CpuSearchTest
    : public ::testing::TestWithParam<std::tuple<std::string, int32_t, ScanChoice>> {
 protected:
  // Sizes around tiles and row groups.
  static constexpr ScenarioSizes kSizes = {
      .generations_end = 4, .rows_of_small_end = 12, .rows_end = 500, .queries_end = 15};
  CpuSearchTest() : backend_(MakeBackend(std::get<0>(GetParam()), std::get<1>(GetParam()))) {}
  CollectionSpec Spec() const { return {.scan = std::get<2>(GetParam())}; }
  std::unique_ptr<backend::Backend> backend_;
  Random random_{TestSeed()};
};

TEST_P(CpuSearchTest, EqualsTheReferenceOnEveryFamilyMetricAndRowType) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    for (const Metric metric : kMetrics) {
      for (const RowType row_type : kRowTypes) {
        CollectionSpec spec = Spec();
        spec.dim = static_cast<int32_t>(random_.Between(1, 100));
        spec.metric = metric;
        spec.row_type = row_type;
        SCOPED_TRACE(testing::Name(family));
        ExpectReferenceAnswers(*backend_, DrawScenario(spec, family, kSizes, random_));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CpuSearchTest, EqualsTheReferenceForLargeKAndEveryOrderOfScores) {
  for (const int32_t direction : {1, -1, 0}) {
    for (const RankOrder order : kRankOrders) {
      Scenario scenario = OrderedScenario(Spec(), direction, order, random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFatalFailure()) return;
      scenario.queries.resize(1);
      scenario.k.resize(1);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuSearchTest, ABatchTooLargeForOneGroupIsServedWhole) {
  CollectionSpec spec = Spec();
  spec.dim = 8000;  // a group holds about 130 queries of this width
  Scenario scenario = {.spec = spec};
  scenario.AddGeneration(CorpusFamily::kGaussian, 3, RankOrder::kShuffled, false, random_);
  for (int32_t q = 0; q < 300; ++q) {
    scenario.AddQueries(1, q % 2 == 0 ? 1 : kKMax, QueryFamily::kGaussian, random_);
  }
  ExpectReferenceAnswers(*backend_, scenario);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuSearchTest,
                         ::testing::Combine(::testing::ValuesIn(CpuInstructionSets()),
                                            ::testing::ValuesIn(testing::ThreadCounts()),
                                            ::testing::Values(ScanChoice::kInt8,
                                                              ScanChoice::kRows)),
                         [](const ::testing::TestParamInfo<CpuSearchTest::ParamType>& param) {
                           return std::get<0>(param.param) + "_" +
                                  std::to_string(std::get<1>(param.param)) + "_threads_" +
                                  testing::Name(std::get<2>(param.param));
                         });

TEST(CpuSearchFactsTest, CostCountsTheRowsReadAndTheCandidates) {
  const auto backend = MakeBackend("", 1);
  const CollectionSpec spec = {.dim = 33};  // stored as 64
  Random random(TestSeed());
  const HostGeneration generation =
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, 1000, random.Bits()),
                              RankOrder::kShuffled, false, random);
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const std::vector<float> queries(66, 1.0f);
  const std::vector<int32_t> k = {1000, 1};
  const backend::QueryTile tile = testing::TileOf(queries, k);
  backend::ScanCost cost;
  backend::RankedLists best;
  ASSERT_OK(backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, tile, &best, &cost));
  EXPECT_EQ(cost.bytes_read, 1000 * 64 * 4);  // once for both queries
  EXPECT_GE(cost.candidates, 1001);
  EXPECT_LE(cost.candidates, 2000);
  EXPECT_GE(cost.device_us, 0);
}

TEST(CpuSearchFactsTest, NoGenerationOrNoLiveRowGivesEmptyAnswers) {
  const auto backend = MakeBackend("", 2);
  const CollectionSpec spec = {.dim = 5};
  Random random(TestSeed());
  HostGeneration generation =
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, 70, random.Bits()),
                              RankOrder::kShuffled, false, random);
  generation.deleted_words = {~uint64_t{0}, ~uint64_t{0}};
  generation.rows_live = 0;
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const std::vector<float> queries(5, 1.0f);
  const std::vector<int32_t> k = {3};
  const backend::QueryTile tile = testing::TileOf(queries, k);
  backend::ScanCost cost;
  backend::RankedLists best;
  ASSERT_OK(backend->Search(testing::FormatOf(spec), {}, tile, &best, &cost));
  EXPECT_EQ(best.queries_count(), 1u);
  EXPECT_EQ(best.generations_count(), 0u);
  ASSERT_OK(backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, tile, &best, &cost));
  EXPECT_TRUE(best.list(0, 0).empty());
}

TEST(CpuSearchFactsTest, RefusesWhatIsOutOfRangeByName) {
  CpuOptions options;
  EXPECT_THAT(MakeCpuTopkEngine(options),
              StatusIs(kInvalidArgument, HasSubstr("memory_bytes = 0")));
  options.memory_bytes = 1 << 20;
  options.instruction_set = "MMX";
  EXPECT_THAT(MakeCpuTopkEngine(options), StatusIs(kInvalidArgument, HasSubstr("portable")));
  options.instruction_set.clear();
  options.threads = -1;
  EXPECT_THAT(MakeCpuTopkEngine(options), StatusIs(kInvalidArgument, HasSubstr("threads = -1")));
  options.threads = 1;
  options.batch_max = 2;
  ASSERT_OK_AND_ASSIGN(const auto backend, MakeCpuTopkEngine(options));
  EXPECT_EQ(backend->info().device_name, CpuInstructionSets()[0] + " (1 thread)");
  EXPECT_EQ(backend->info().k_max, kKMax + 1);
  backend::RowFormat format;
  format.dim = 1;
  const std::vector<float> queries(3, 1.0f);
  backend::QueryTile tile;
  tile.queries = queries.data();
  backend::ScanCost cost;
  backend::RankedLists best;
  const std::vector<int32_t> k_zero = {1, 0};
  tile.k = k_zero;
  EXPECT_THAT(backend->Search(format, {}, tile, &best, &cost),
              StatusIs(kInvalidArgument, HasSubstr("queries[1].k = 0")));
  const std::vector<int32_t> three = {1, 1, 1};
  tile.k = three;
  EXPECT_THAT(backend->Search(format, {}, tile, &best, &cost),
              StatusIs(kInvalidArgument, HasSubstr("must be 0 .. 2")));
}

}  // namespace
}  // namespace nearfield::cpu
