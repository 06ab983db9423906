// Tests the arithmetic of the selection and of the row layout, on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "engine/gpu/kernels/primitives/row_layout.h"
#include "engine/topk/sample_target.h"
#include "engine/topk/sampled_threshold.h"
#include "engine/topk/select_policy.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::gpu {
namespace {

using testing::Random;

// Returns rows and k as the kernels see them, with the room and the loads of a policy.
SampleShape AnyShape(Random& random) {
  SampleShape shape;
  const auto& policy = kSampledPolicies[random.OneIn(2) ? 0 : 1];
  shape.room = static_cast<uint32_t>(policy.shape.capacity);
  shape.n = static_cast<uint32_t>(random.Between(1, int64_t{1} << random.Between(1, 32)));
  shape.k = static_cast<uint32_t>(
      random.Between(1, std::min<int64_t>(policy.shape.k_max, static_cast<int64_t>(shape.n)) + 1));
  shape.per_vector = random.OneIn(2) ? 4 : 8;
  shape.blocks = random.OneIn(2) ? 1 : static_cast<uint32_t>(random.Between(2, 133));
  return shape;
}

TEST(SampleTargetTest, ASampleFitsTheRowAndLeavesRoom) {
  Random random(testing::TestSeed());
  int sampled = 0;
  for (int round = 0; round < 20'000; ++round) {
    const SampleShape shape = AnyShape(random);
    const SamplePlan plan = PlanSample(shape);
    SCOPED_TRACE(::testing::Message() << "n " << shape.n << ", k " << shape.k << ", room "
                                      << shape.room << ", blocks " << shape.blocks);
    if (plan.way == SampleWay::kEveryKey) {
      ASSERT_LE(shape.n, shape.room);
      continue;
    }
    if (plan.way == SampleWay::kWholeRow) continue;
    ++sampled;
    ASSERT_GE(plan.pairs_log2, kPairsLog2Min);
    const uint64_t sample = SampleSize(shape, plan.pairs_log2);
    ASSERT_LE(sample, shape.n / 4);
    if (plan.way == SampleWay::kOwnSample) {
      ASSERT_LE(sample, kOwnSampleMax);
    }
    // A row that begins and ends between boundaries has two vectors fewer.
    const uint64_t vectors = shape.n / shape.per_vector - 2;
    ASSERT_LE(uint64_t{2} << plan.pairs_log2, vectors);
    const float share = static_cast<float>(sample) / static_cast<float>(shape.n);
    const SampleTarget target =
        TargetOf(shape.k, share, shape.room, shape.per_vector << plan.run_log2);
    ASSERT_GE(target.accepted, target.wanted);
    ASSERT_LE(target.wanted, sample);
    // In a sorted row the k best are adjacent, so whole runs of the sample may lie among them.
    ASSERT_GE(plan.run_log2, 1);
    ASSERT_LE(plan.run_log2, kRunLog2Max);
    ASSERT_LE(uint32_t{1} << plan.run_log2, vectors);
    ASSERT_GT(static_cast<float>(target.wanted),
              static_cast<float>(shape.k) * share +
                  static_cast<float>(shape.per_vector << plan.run_log2));
  }
  EXPECT_GT(sampled, 1000);
}

// The guess is good: in random order, the sample almost never holds more of the k best than
// `wanted`.
TEST(SampleTargetTest, AlmostEveryGuessIsRight) {
  Random random(testing::TestSeed());
  int wrong = 0;
  for (int round = 0; round < 400; ++round) {
    SampleShape shape = {.n = 50'000, .k = 2048, .room = 3840, .per_vector = 4, .blocks = 1};
    if (round % 2 == 0) shape = {.n = 16'384, .k = 64, .room = 2048, .per_vector = 4, .blocks = 1};
    const SamplePlan plan = PlanSample(shape);
    ASSERT_EQ(plan.way, SampleWay::kOwnSample);
    const auto sample = static_cast<uint32_t>(SampleSize(shape, plan.pairs_log2));
    const SampleTarget target =
        TargetOf(shape.k, static_cast<float>(sample) / static_cast<float>(shape.n), shape.room,
                 shape.per_vector << plan.run_log2);
    uint32_t winners_left = shape.k;
    uint32_t sampled_winners = 0;
    for (uint32_t i = 0; i < sample; ++i) {  // drawn without replacement
      if (random.Between(0, shape.n - i) < winners_left) {
        --winners_left;
        ++sampled_winners;
      }
    }
    if (sampled_winners >= target.wanted) ++wrong;
  }
  EXPECT_LE(wrong, 2);
}

TEST(SampledPolicyTest, EveryKHasRoomForItself) {
  int before = 0;
  for (const SampledPolicy& policy : kSampledPolicies) {
    EXPECT_GE(policy.shape.k_max, before);
    EXPECT_GE(policy.shape.capacity, policy.shape.k_max);
    EXPECT_EQ(policy.shape.capacity % policy.shape.threads, 0);
    before = policy.shape.k_max;
  }
  EXPECT_LE(kSelectKMax, kSampledKMax);
}

TEST(RowLayoutTest, PositionsAreAPermutationThatGivesEachLaneItsDimensions) {
  for (int32_t dim = 1; dim <= 700; ++dim) {
    const RowShape shape = RowShapeOf(dim);
    ASSERT_GE(shape.padded, dim);
    ASSERT_LT(shape.padded - dim, kWarp);
    ASSERT_EQ(shape.full_blocks * kBlockDims + shape.tail_words * kWarp, shape.padded);
    std::set<int32_t> row_positions;
    std::set<int32_t> query_positions;
    for (int32_t d = 0; d < shape.padded; ++d) {
      const int32_t at = RowPosition(shape, d);
      ASSERT_TRUE(at >= 0 && at < shape.padded);
      row_positions.insert(at);
      query_positions.insert(QueryPosition(shape, d));
      const int32_t block = d / kBlockDims;
      if (block < shape.full_blocks) {
        // Position 128 i + 4 L + j holds dimension 128 i + 32 j + L.
        const int32_t lane = d % kWarp;
        const int32_t j = d % kBlockDims / kWarp;
        ASSERT_EQ(at, block * kBlockDims + 4 * lane + j);
        // Pair j / 2 of lane L is the double2 number 64 i + 32 (j / 2) + L.
        ASSERT_EQ(QueryPosition(shape, d) / 2, block * 64 + (j / 2) * 32 + lane);
        ASSERT_EQ(QueryPosition(shape, d) % 2, j % 2);
      } else {
        ASSERT_EQ(at, d);
      }
    }
    ASSERT_EQ(static_cast<int32_t>(row_positions.size()), shape.padded);
    ASSERT_EQ(static_cast<int32_t>(query_positions.size()), shape.padded);
    ASSERT_EQ(*query_positions.rbegin(), shape.padded - 1);
  }
}

}  // namespace
}  // namespace nearfield::gpu
