// Tests of the stages of a batch (together they scan every tile once, and the first fits the
// queues), and of the choice between codes and rows.
#include "engine/plan/batch_plan.h"

#include <algorithm>
#include <vector>

#include "engine/plan/scan_cost.h"
#include "tests/engine/prelude.h"

namespace nearfield::plan {
namespace {

constexpr int64_t kTileRows = 64;

// Returns tile `index` of a stage, in the numbering of the scan kernel.
int64_t TileAt(const ScanStage& stage, int64_t index) {
  if (stage.done_step == 0) return index * stage.step;
  const int64_t ratio = stage.done_step / stage.step;
  return stage.step * (index / (ratio - 1) * ratio + 1 + index % (ratio - 1));
}

TEST(BatchPlanTest, EveryTileIsScannedOnce) {
  Random random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    const int64_t tiles = random.OneIn(4) ? random.Between(1, 70) : random.Between(1, 40'000);
    const auto k = static_cast<int32_t>(random.Between(1, 1025));
    const int64_t capacity = random.Between(4096, 32'769);
    SCOPED_TRACE(::testing::Message() << tiles << " tiles, k = " << k << ", capacity " << capacity);
    std::vector<int> scanned(static_cast<size_t>(tiles), 0);
    const std::vector<ScanStage> stages = PlanStages(tiles, kTileRows, k, capacity);
    ASSERT_FALSE(stages.empty());
    ASSERT_EQ(stages.front().done_step, 0);
    ASSERT_LE(stages.front().tiles * kTileRows, capacity);
    ASSERT_EQ(stages.back().step, 1);
    for (const ScanStage& stage : stages) {
      for (int64_t i = 0; i < stage.tiles; ++i) {
        const int64_t tile = TileAt(stage, i);
        ASSERT_LT(tile, tiles);
        ++scanned[static_cast<size_t>(tile)];
      }
    }
    ASSERT_EQ(std::count(scanned.begin(), scanned.end(), 1), tiles);
  }
}

TEST(BatchPlanTest, TheFirstStageHasRowsForK) {
  for (const int32_t k : {1, 10, 100, 1000, 1024}) {
    const std::vector<ScanStage> stages = PlanStages(1'000'000, kTileRows, k, 32'768);
    EXPECT_GE(stages.front().tiles * kTileRows, k);
  }
}

// A corpus of max(4096, 8 k, min(64 k, 8192)) rows, or of 8192, needs no second stage, and one with
// one more tile does. Two stages scan up to `growth` times as many rows.
TEST(BatchPlanTest, TheFirstStageGrowsWithK) {
  struct Case {
    int32_t k;
    int64_t first_rows;
    int64_t growth;
  };
  for (const Case& one :
       {Case{1, 4096, 16}, Case{100, 6400, 8}, Case{1024, 8192, 4}, Case{4096, 32'768, 4}}) {
    SCOPED_TRACE(::testing::Message() << "k = " << one.k);
    const auto stages_of = [&](int64_t tiles) {
      return PlanStages(tiles, kTileRows, one.k, 65'536);
    };
    const int64_t tiles = std::max<int64_t>(8192, one.first_rows) / kTileRows;
    EXPECT_EQ(stages_of(tiles).size(), 1u);
    EXPECT_EQ(stages_of(tiles + 1).size(), 2u);
    const int64_t of_two = one.first_rows / kTileRows * one.growth;
    EXPECT_EQ(stages_of(of_two).size(), 2u);
    EXPECT_EQ(stages_of(of_two + 1).size(), 3u);
  }
}

// An H200.
constexpr Device kLargeDevice = {.read_bytes_per_second = 4.4e12,
                                 .clocks_per_second = 132 * 1.98e9,
                                 .capability = 90,
                                 .wgmma = true};

bool PrefersCodes(const ScanWork& work) {
  return ScanTime(ScanPath::kCodes, work) < ScanTime(ScanPath::kRows, work);
}

TEST(ScanChoiceTest, CodesServeLargeCorporaAndRowsSmallOnes) {
  const auto work = [](int64_t rows, int64_t queries) {
    return ScanWork{.rows = rows,
                    .row_bytes = 4096,
                    .code_bytes = 1040,
                    .queries = queries,
                    .rates = RatesOf(kLargeDevice)};
  };
  EXPECT_FALSE(PrefersCodes(work(1'000, 1)));
  EXPECT_TRUE(PrefersCodes(work(1'000'000, 1)));
  EXPECT_FALSE(PrefersCodes(work(1'000, 8)));
  EXPECT_TRUE(PrefersCodes(work(1'000'000, 2)));
  EXPECT_TRUE(PrefersCodes(work(100'000, 1024)));
}

TEST(ScanChoiceTest, ABatchThatReadsTheCodesMoreOftenCostsMore) {
  ScanWork work = {.rows = 1'000'000,
                   .row_bytes = 4096,
                   .code_bytes = 2064,
                   .queries = 64,
                   .rates = RatesOf(kLargeDevice)};
  for (int64_t at_once = 128; at_once > 1; at_once /= 2) {
    work.queries_of_pass = at_once;
    const double more = ScanTime(ScanPath::kCodes, work);
    work.queries_of_pass = at_once / 2;
    EXPECT_LE(more, ScanTime(ScanPath::kCodes, work));
  }
  EXPECT_FALSE(PrefersBatch(work)) << "one query a pass";
}

TEST(ScanChoiceTest, FewQueriesGoOneByOneAndManyTogether) {
  const auto work = [](int64_t rows, int64_t queries) {
    return ScanWork{.rows = rows,
                    .row_bytes = 4096,
                    .code_bytes = 1040,
                    .queries = queries,
                    .rates = RatesOf(kLargeDevice)};
  };
  EXPECT_FALSE(PrefersBatch(work(1'000'000, 1)));
  EXPECT_FALSE(PrefersBatch(work(10'000, 1)));
  EXPECT_TRUE(PrefersBatch(work(10'000, 32)));
  EXPECT_TRUE(PrefersBatch(work(1'000'000, 4)));
}

TEST(ScanChoiceTest, ASlowerMemoryFavorsCodesInSmallerCorpora) {
  // Returns the smallest corpus, in powers of two, for which one query prefers codes.
  const auto smallest = [](double read_bytes_per_second) {
    Device device = kLargeDevice;
    device.read_bytes_per_second = read_bytes_per_second;
    ScanWork work = {
        .rows = 1, .row_bytes = 4096, .code_bytes = 1040, .queries = 1, .rates = RatesOf(device)};
    while (!PrefersCodes(work)) work.rows *= 2;
    return work.rows;
  };
  EXPECT_LT(smallest(1.0e12), smallest(4.4e12));
  EXPECT_LT(smallest(3.0e11), smallest(1.0e12));
}

TEST(ScanChoiceTest, WhatTheDriverDoesNotReportIsTakenFromALargeDevice) {
  const ScanRates unknown = RatesOf({.capability = 90, .wgmma = true});
  const ScanRates known = RatesOf(kLargeDevice);
  EXPECT_EQ(unknown.read_bytes_per_us, known.read_bytes_per_us);
  EXPECT_EQ(unknown.code_bytes_per_us, known.code_bytes_per_us);
  EXPECT_EQ(unknown.float_rows_bytes_per_us, known.float_rows_bytes_per_us);
}

TEST(ScanChoiceTest, NoRateExceedsTheMemory) {
  for (const int32_t capability : {75, 80, 86, 89, 90, 100, 120}) {
    const ScanRates rates = RatesOf({.read_bytes_per_second = 3.2e11,
                                     .clocks_per_second = 40 * 1.59e9,
                                     .capability = capability});
    EXPECT_EQ(rates.read_bytes_per_us, 3.2e5);
    EXPECT_LE(rates.float_rows_bytes_per_us, rates.read_bytes_per_us);
    EXPECT_LE(rates.code_bytes_per_us, rates.read_bytes_per_us);
    EXPECT_GT(rates.float_rows_bytes_per_us, 0);
    EXPECT_GT(rates.code_bytes_per_us, 0);
  }
}

TEST(ScanCostTest, ManyQueriesAreFasterOnlyOnADeviceThatScansTiles) {
  Device device = {.capability = 90, .wgmma = true};
  const ScanRates without = RatesOf(device);
  device.scans_tiles = true;
  const ScanRates with = RatesOf(device);
  const auto time = [](int64_t queries, const ScanRates& rates) {
    return ScanTime(ScanPath::kRows, {.rows = 100'000,
                                      .row_bytes = 1536,
                                      .row_elements = 384,
                                      .code_bytes = 400,
                                      .queries = queries,
                                      .rates = rates});
  };
  EXPECT_LT(time(1024, with), time(1024, without));
  EXPECT_EQ(time(1, with), time(1, without));
  EXPECT_EQ(time(8, with), time(8, without));
}

}  // namespace
}  // namespace nearfield::plan
