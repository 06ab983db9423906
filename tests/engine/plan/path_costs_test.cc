#include "engine/plan/path_costs.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace nearfield::plan {
namespace {

// A search for which scan_cost.h prefers codes.
ScanWork WorkFor(int64_t queries) {
  return {.rows = 1'000'000,
          .row_bytes = 4096,
          .code_bytes = 1040,
          .queries = queries,
          .rates = RatesOf({.capability = 90, .wgmma = true})};
}

// The times that a search takes, by either way of scanning.
struct Times {
  double codes = 0;
  double rows = 0;
};

// Runs searches; returns the sum of their times.
double Total(PathCosts& costs, const ScanWork& work, int32_t k, const Times& times, int searches) {
  double total = 0;
  for (int i = 0; i < searches; ++i) {
    const bool codes = costs.PrefersCodes(work, k);
    const double us = codes ? times.codes : times.rows;
    costs.Record(codes ? ScanPath::kCodes : ScanPath::kRows, work, k, us);
    total += us;
  }
  return total;
}

TEST(PathCostsTest, FollowsThePredictionFirst) {
  for (const int64_t queries : {1, 8, 1024}) {
    EXPECT_EQ(PathCosts().PrefersCodes(WorkFor(queries), 10),
              CodeScanTime(WorkFor(queries)) < RowScanTime(WorkFor(queries)));
    ScanWork small = WorkFor(queries);
    small.rows = 1'000;
    EXPECT_EQ(PathCosts().PrefersCodes(small, 10), CodeScanTime(small) < RowScanTime(small));
  }
}

TEST(PathCostsTest, AnyDataTakesAtMostAQuarterLongerThanTheFasterPath) {
  for (const int64_t queries : {1, 2, 65, 1024}) {
    const ScanWork work = WorkFor(queries);
    const Times predicted = {CodeScanTime(work), RowScanTime(work)};
    ASSERT_LT(predicted.codes, predicted.rows);
    for (const double slower : {0.5, 1.0, 1.5, 3.0, 8.0, 40.0}) {
      // A scan of codes that finds too many candidates ends with a scan of the rows.
      const Times times = {predicted.codes * slower, predicted.rows};
      PathCosts costs;
      Total(costs, work, 10, times, 40);
      const double taken = Total(costs, work, 10, times, 1000);
      EXPECT_LT(taken, 1.25 * 1000 * std::min(times.codes, times.rows))
          << queries << " queries, codes " << slower << " times as slow as predicted";
    }
  }
}

TEST(PathCostsTest, OneSlowSearchDoesNotDecide) {
  const ScanWork work = WorkFor(1);
  PathCosts costs;
  costs.Record(ScanPath::kCodes, work, 10, 5 * CodeScanTime(work));
  EXPECT_TRUE(costs.PrefersCodes(work, 10));
}

TEST(PathCostsTest, ReturnsToCodesWhenTheDataBecomesEasy) {
  const ScanWork work = WorkFor(65);
  const Times predicted = {CodeScanTime(work), RowScanTime(work)};
  PathCosts costs;
  EXPECT_GT(Total(costs, work, 10, {40 * predicted.codes, predicted.rows}, 100),
            99 * predicted.rows);
  Total(costs, work, 10, predicted, 400);
  EXPECT_EQ(Total(costs, work, 10, predicted, 1), predicted.codes);
}

TEST(PathCostsTest, LearnsForEachSizeOfBatchAndOfKAlone) {
  PathCosts costs;
  const ScanWork work = WorkFor(65);
  Total(costs, work, 1000, {100 * CodeScanTime(work), RowScanTime(work)}, 10);
  EXPECT_FALSE(costs.PrefersCodes(work, 1000));
  EXPECT_TRUE(costs.PrefersCodes(work, 10));
  EXPECT_TRUE(costs.PrefersCodes(WorkFor(1), 1000));
}

}  // namespace
}  // namespace nearfield::plan
