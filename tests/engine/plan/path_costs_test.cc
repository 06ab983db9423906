#include "engine/plan/path_costs.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "gtest/gtest.h"

namespace nearfield::plan {
namespace {

// A search for which scan_cost.h prefers codes.
ScanWork WorkFor(int64_t queries) {
  return {.rows = 1'000'000,
          .row_bytes = 4096,
          .row_elements = 1024,
          .code_bytes = 1040,
          .queries = queries,
          .rates = RatesOf({.capability = 90, .wgmma = true})};
}

constexpr std::array kAllPaths = {ScanPath::kCodes, ScanPath::kRows, ScanPath::kRowBatch};

// The time that a search takes on each path.
using Times = std::array<double, kScanPaths>;

double& TimeOf(Times& times, ScanPath path) { return times[static_cast<size_t>(path)]; }

Times PredictedFor(const ScanWork& work) {
  Times times;
  for (const ScanPath path : kAllPaths) TimeOf(times, path) = ScanTime(path, work);
  return times;
}

// Runs searches; returns the sum of their times.
double Total(PathCosts& costs, const ScanWork& work, int32_t k, Times times, int searches) {
  double total = 0;
  for (int i = 0; i < searches; ++i) {
    const ScanPath path = costs.Fastest(kAllPaths, work, k);
    costs.Record(path, work, k, TimeOf(times, path));
    total += TimeOf(times, path);
  }
  return total;
}

TEST(PathCostsTest, FollowsThePredictionFirst) {
  for (const int64_t queries : {1, 8, 1024}) {
    for (const int64_t rows : {1'000, 1'000'000}) {
      ScanWork work = WorkFor(queries);
      work.rows = rows;
      Times times = PredictedFor(work);
      EXPECT_EQ(TimeOf(times, PathCosts().Fastest(kAllPaths, work, 10)),
                *std::min_element(times.begin(), times.end()));
    }
  }
}

TEST(PathCostsTest, ChoosesOnlyAmongThePathsThatAreAllowed) {
  const ScanWork work = WorkFor(65);
  EXPECT_EQ(PathCosts().Fastest(kAllPaths, work, 10), ScanPath::kCodes);
  EXPECT_EQ(PathCosts().Fastest({ScanPath::kRows, ScanPath::kRowBatch}, work, 10),
            ScanPath::kRowBatch);
  EXPECT_EQ(PathCosts().Fastest({ScanPath::kRows}, work, 10), ScanPath::kRows);
}

TEST(PathCostsTest, AnyDataTakesAtMostAQuarterLongerThanTheFastestPath) {
  for (const int64_t queries : {1, 2, 65, 1024}) {
    const ScanWork work = WorkFor(queries);
    for (const double codes_slower : {0.5, 1.0, 1.5, 3.0, 8.0, 40.0}) {
      for (const double row_batch_slower : {1.0, 1.5, 3.0, 40.0}) {
        Times times = PredictedFor(work);
        TimeOf(times, ScanPath::kCodes) *= codes_slower;
        TimeOf(times, ScanPath::kRowBatch) *= row_batch_slower;
        PathCosts costs;
        Total(costs, work, 10, times, 40);
        const double taken = Total(costs, work, 10, times, 1000);
        EXPECT_LT(taken, 1.25 * 1000 * *std::min_element(times.begin(), times.end()))
            << queries << " queries, codes " << codes_slower << " and row batches "
            << row_batch_slower << " times as slow as predicted";
      }
    }
  }
}

TEST(PathCostsTest, OneSlowSearchDoesNotDecide) {
  const ScanWork work = WorkFor(1);
  PathCosts costs;
  costs.Record(ScanPath::kCodes, work, 10, 5 * ScanTime(ScanPath::kCodes, work));
  EXPECT_EQ(costs.Fastest(kAllPaths, work, 10), ScanPath::kCodes);
}

TEST(PathCostsTest, ReturnsToCodesWhenTheDataBecomesEasy) {
  const ScanWork work = WorkFor(65);
  const Times predicted = PredictedFor(work);
  Times hard = predicted;
  TimeOf(hard, ScanPath::kCodes) *= 40;
  PathCosts costs;
  EXPECT_GT(Total(costs, work, 10, hard, 100), 99 * TimeOf(hard, ScanPath::kRowBatch));
  EXPECT_NE(costs.Fastest(kAllPaths, work, 10), ScanPath::kCodes);
  Total(costs, work, 10, predicted, 400);
  EXPECT_EQ(costs.Fastest(kAllPaths, work, 10), ScanPath::kCodes);
}

TEST(PathCostsTest, LearnsForEachSizeOfBatchAndOfKAlone) {
  PathCosts costs;
  const ScanWork work = WorkFor(65);
  Times hard = PredictedFor(work);
  TimeOf(hard, ScanPath::kCodes) *= 100;
  Total(costs, work, 1000, hard, 10);
  EXPECT_NE(costs.Fastest(kAllPaths, work, 1000), ScanPath::kCodes);
  EXPECT_EQ(costs.Fastest(kAllPaths, work, 10), ScanPath::kCodes);
  EXPECT_EQ(costs.Fastest(kAllPaths, WorkFor(1), 1000), ScanPath::kCodes);
}

}  // namespace
}  // namespace nearfield::plan
