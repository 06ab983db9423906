#include "engine/corpus/merge_policy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "nearfield/engine/types.h"
#include "tests/engine/prelude.h"

namespace nearfield::corpus {
namespace {

struct Simulation {
  std::vector<int64_t> sizes;
  int64_t rows_added = 0;
  int64_t rows_copied = 0;
  int64_t rows_copied_max = 0;  // in one commit

  void Commit(int64_t rows) {
    int64_t copied = 0;
    while (sizes.size() >= size_t{kGenerationsMax}) {
      std::vector<size_t> chosen = ChooseMerge(sizes);
      ASSERT_GE(chosen.size(), 2u);
      std::sort(chosen.begin(), chosen.end(), std::greater<>());
      ASSERT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
      int64_t merged = 0;
      for (const size_t index : chosen) {
        merged += sizes[index];
        sizes.erase(sizes.begin() + static_cast<int64_t>(index));
      }
      copied += merged;
      sizes.push_back(merged);
    }
    sizes.push_back(rows);
    rows_added += rows;
    rows_copied += copied;
    rows_copied_max = std::max(rows_copied_max, copied);
  }
};

TEST(MergePolicy, OneRowCommitsCopyEachRowAFewTimes) {
  Simulation simulation;
  for (int i = 0; i < 200'000; ++i) simulation.Commit(1);
  // log1.5(200,000) is 30; balanced merges usually copy far fewer rows than their bound.
  EXPECT_LT(simulation.rows_copied, 12 * simulation.rows_added);
  EXPECT_EQ(std::accumulate(simulation.sizes.begin(), simulation.sizes.end(), int64_t{0}), 200'000);
}

TEST(MergePolicy, ABigGenerationIsLeftAloneBySmallCommits) {
  Simulation simulation;
  simulation.Commit(100'000'000);
  for (int i = 0; i < 10'000; ++i) simulation.Commit(1);
  EXPECT_LT(simulation.rows_copied_max, 100'000);
  EXPECT_LT(simulation.rows_copied, 12 * 10'000);
}

// The worst case for "always the two smallest": sixteen equal parts, then one row at a time.
TEST(MergePolicy, EqualBigPartsAreNotCopiedForEachRow) {
  Simulation simulation;
  for (int i = 0; i < 16; ++i) simulation.Commit(1'000'000);
  for (int i = 0; i < 10'000; ++i) simulation.Commit(1);
  EXPECT_LT(simulation.rows_copied, 16'000'000 * 4);
}

// One commit waits for one merge, which copies half of sixteen equal parts, not all.
TEST(MergePolicy, ABigMergeCostsAtMostFourTimesTheCheapest) {
  EXPECT_EQ(ChooseMerge(std::vector<int64_t>(16, 1'000'000)).size(), 8u);
  EXPECT_EQ(ChooseMerge(std::vector<int64_t>(16, 1)).size(), 16u);  // small ones together
}

TEST(MergePolicy, CommitsOfAnySizeCopyLogarithmically) {
  Random random(TestSeed());
  for (int round = 0; round < 20; ++round) {
    Simulation simulation;
    for (int i = 0; i < 3000; ++i) {
      simulation.Commit(int64_t{1} << random.Between(0, random.Between(1, 20)));
    }
    EXPECT_LT(simulation.rows_copied, 20 * simulation.rows_added);
  }
}

TEST(MergePolicy, NeverOneAndEmptyOnlyIfNoTwoFit) {
  Random random(TestSeed() + 1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> sizes(static_cast<size_t>(random.Between(2, 17)));
    for (int64_t& size : sizes) size = 1 + random.Between(0, int64_t{1} << random.Between(0, 31));
    const std::vector<size_t> chosen = ChooseMerge(sizes);
    int64_t rows = 0;
    for (const size_t index : chosen) rows += sizes.at(index);
    EXPECT_LE(rows, kRowsMax);
    EXPECT_NE(chosen.size(), 1u);
    EXPECT_EQ(chosen.empty(), SmallestMerge(sizes).empty());
  }
}

TEST(MergePolicy, RowsMaxIsRespected) {
  EXPECT_THAT(ChooseMerge({kRowsMax, kRowsMax, kRowsMax}), IsEmpty());
  EXPECT_THAT(ChooseMerge({kRowsMax, 5, kRowsMax, 6}), UnorderedElementsAre(1, 3));
  EXPECT_THAT(SmallestMerge({kRowsMax, 1}), IsEmpty());
  EXPECT_THAT(SmallestMerge({kRowsMax - 1, 1}), UnorderedElementsAre(0, 1));
}

TEST(MergePolicy, WithoutABalancedMergeTheTwoSmallest) {
  EXPECT_THAT(ChooseMerge({1'000'000, 10, 100'000, 1'000}), UnorderedElementsAre(1, 3));
}

}  // namespace
}  // namespace nearfield::corpus
