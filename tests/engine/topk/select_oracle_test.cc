// Compares the oracle of the selection tests with answers worked out by hand, and checks the test
// inputs. Needs no GPU.
#include "tests/engine/topk/kit/select_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "engine/score/row_types.h"
#include "tests/engine/topk/kit/select_cases.h"
#include "tests/testing/seed.h"

namespace nearfield::select {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kOne = 0x3f800000, kTwo = 0x40000000, kMinusOne = 0xbf800000;
constexpr uint32_t kInfinity = 0x7f800000, kMinusInfinity = 0xff800000;
constexpr uint32_t kNan = 0x7fc00000, kMinusZero = 0x80000000, kLeast = 0x00000001;

Answer SelectFloats(const std::vector<uint32_t>& row, int64_t k) {
  return SelectRow(ScoreType::kFloat32, row.data(), static_cast<int64_t>(row.size()), k);
}

TEST(SelectOracleTest, GreaterScoreFirstThenSmallerIndex) {
  const Answer best = SelectFloats({kOne, kTwo, kMinusOne, kTwo, kOne}, 5);
  EXPECT_THAT(best.indices, ElementsAre(1, 3, 0, 4, 2));
  EXPECT_THAT(best.values, ElementsAre(kTwo, kTwo, kOne, kOne, kMinusOne));
}

TEST(SelectOracleTest, TiesAtTheThresholdGoToTheSmallerIndex) {
  const Answer best = SelectFloats({kOne, kTwo, kOne, kOne}, 2);
  EXPECT_THAT(best.indices, ElementsAre(1, 0));
}

TEST(SelectOracleTest, ZerosAreEqualAndComeBackPositive) {
  const Answer best = SelectFloats({kMinusZero, 0, kLeast, kMinusZero, kMinusZero | kLeast}, 5);
  EXPECT_THAT(best.indices, ElementsAre(2, 0, 1, 3, 4));
  EXPECT_THAT(best.values, ElementsAre(kLeast, 0, 0, 0, kMinusZero | kLeast));
}

TEST(SelectOracleTest, NansRankLastInIndexOrderAndComeBackAsOneNan) {
  const Answer best =
      SelectFloats({0x7f800001, kMinusInfinity, 0xffc12345, kInfinity, kMinusOne, 0xffffffff}, 6);
  EXPECT_THAT(best.indices, ElementsAre(3, 4, 1, 0, 2, 5));
  EXPECT_THAT(best.values, ElementsAre(kInfinity, kMinusOne, kMinusInfinity, kNan, kNan, kNan));
}

TEST(SelectOracleTest, NarrowTypesByHand) {
  // 1, 65504 (the maximum), 2^-24 (the smallest positive), -inf, NaN, -0, 1 again.
  const std::vector<uint16_t> fp16 = {0x3c00, 0x7bff, 0x0001, 0xfc00, 0xfe01, 0x8000, 0x3c00};
  const Answer best16 = SelectRow(ScoreType::kFloat16, fp16.data(), 7, 7);
  EXPECT_THAT(best16.indices, ElementsAre(1, 0, 6, 2, 5, 3, 4));
  EXPECT_THAT(best16.values, ElementsAre(0x7bff, 0x3c00, 0x3c00, 0x0001, 0, 0xfc00, 0x7e00));
  // -1, 1.0078125, 1, +inf, NaN, the smallest denormal negated.
  const std::vector<uint16_t> bf16 = {0xbf80, 0x3f81, 0x3f80, 0x7f80, 0xff81, 0x8001};
  const Answer bestb = SelectRow(ScoreType::kBFloat16, bf16.data(), 6, 6);
  EXPECT_THAT(bestb.indices, ElementsAre(3, 1, 2, 5, 0, 4));
  EXPECT_THAT(bestb.values, ElementsAre(0x7f80, 0x3f81, 0x3f80, 0x8001, 0xbf80, 0x7fc0));
  EXPECT_EQ(DecodeScore(ScoreType::kFloat16, 0x7bff), 65504.0f);
  EXPECT_EQ(DecodeScore(ScoreType::kFloat16, 0x8001), -0x1p-24f);
  EXPECT_EQ(DecodeScore(ScoreType::kBFloat16, 0x4049), 3.140625f);
}

TEST(SelectOracleTest, DecodesAsTheEngineDoes) {
  for (uint32_t bits = 0; bits < 65'536; ++bits) {
    const float fp16 = score::FloatFromHalfBits(static_cast<uint16_t>(bits));
    const float bf16 = score::FloatFromBfloat16Bits(static_cast<uint16_t>(bits));
    const auto got16 = static_cast<float>(DecodeScore(ScoreType::kFloat16, bits));
    const auto gotb = static_cast<float>(DecodeScore(ScoreType::kBFloat16, bits));
    ASSERT_EQ(std::isnan(got16), std::isnan(fp16)) << bits;
    ASSERT_EQ(std::isnan(gotb), std::isnan(bf16)) << bits;
    if (!std::isnan(fp16)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(got16), score::BitsFromFloat(fp16));
    }
    if (!std::isnan(bf16)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(gotb), score::BitsFromFloat(bf16));
    }
  }
}

// Returns the answer of a stable sort by score alone: ties then go to the smaller index.
Answer StableSorted(const SelectCase& problem, const HostScores& scores, int64_t row) {
  const ScoreType type = problem.shape.type;
  const auto value = [&](uint32_t i) {
    return DecodeScore(type, LoadScore(type, scores.Row(row), i));
  };
  std::vector<uint32_t> order(static_cast<size_t>(problem.shape.n));
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::isnan(value(b)) ? !std::isnan(value(a)) : value(a) > value(b);
  });
  order.resize(static_cast<size_t>(problem.shape.k));
  Answer best = {.indices = order};
  for (const uint32_t i : order) {
    best.values.push_back(ReturnedBits(type, LoadScore(type, scores.Row(row), i)));
  }
  return best;
}

TEST(SelectOracleTest, EqualsAStableSortOnEveryInput) {
  testing::Random random(testing::TestSeed());
  for (const SelectCase& problem : EveryInputCases({.batch = 2, .n = 6000, .k = 1000}, random)) {
    SCOPED_TRACE(Describe(problem));
    const HostScores scores = MakeScores(problem);
    const Answer all = SelectBatch(problem.shape, scores.Row(0), scores.stride());
    for (int64_t row = 0; row < problem.shape.batch; ++row) {
      const Answer best = StableSorted(problem, scores, row);
      const auto at = row * problem.shape.k;
      ASSERT_TRUE(std::equal(best.values.begin(), best.values.end(), all.values.begin() + at));
      ASSERT_TRUE(std::equal(best.indices.begin(), best.indices.end(), all.indices.begin() + at));
    }
  }
}

// The inputs are what their names say, so a test over all of them is meaningful.
TEST(SelectCasesTest, InputsAreWhatTheyAreCalled) {
  testing::Random random(testing::TestSeed());
  for (const SelectCase& problem : EveryInputCases({.batch = 1, .n = 9000, .k = 100}, random)) {
    SCOPED_TRACE(Describe(problem));
    if (IsInteger(problem.shape.type) && NeedsAFloat(problem.input)) continue;
    const HostScores scores = MakeScores(problem);
    const Answer all = SelectRow(problem.shape.type, scores.Row(0), 9000, 9000);
    const auto count = [&](uint32_t bits) {
      return std::count(all.values.begin(), all.values.end(), bits);
    };
    const ScoreFormat format = FormatOf(problem.shape.type);
    const int64_t nans = IsInteger(problem.shape.type) ? 0 : count(format.quiet_nan());
    switch (problem.input) {
      case Input::kAllEqual: EXPECT_EQ(all.values.front(), all.values.back()); break;
      case Input::kTiesAtTheThreshold: EXPECT_EQ(count(all.values[99]), 5000); break;
      case Input::kSortedUp:
        EXPECT_GE(all.indices.front(), 8900u);
        EXPECT_NE(all.values.front(), all.values.back());
        break;
      case Input::kSortedDown:
        EXPECT_EQ(all.indices.front(), 0u);
        EXPECT_NE(all.values.front(), all.values.back());
        break;
      case Input::kBestAtTheEnd:
        for (int i = 0; i < 100; ++i) EXPECT_GE(all.indices[static_cast<size_t>(i)], 8900u);
        break;
      case Input::kAllMinusInfinity:
        EXPECT_GE(count(format.sign() | format.infinity()), 8999);
        break;
      case Input::kFewNans: EXPECT_TRUE(nans > 0 && nans < 1000) << nans; break;
      case Input::kHalfNans: EXPECT_TRUE(nans > 4000 && nans < 5000) << nans; break;
      case Input::kAllNans: EXPECT_EQ(nans, 9000); break;
      default: EXPECT_LT(nans, 9000);
    }
  }
}

// The names of the timed inputs and types seed their scores, so another name changes the hashes of
// the benchmark's receipts.
TEST(SelectCasesTest, NamesOfTheBenchmark) {
  EXPECT_STREQ(NameOf(Input::kNormal), "normal");
  EXPECT_STREQ(NameOf(Input::kUniform), "uniform");
  EXPECT_STREQ(NameOf(Input::kAllEqual), "all_equal");
  EXPECT_STREQ(NameOf(Input::kTwoValues), "two_values");
  EXPECT_STREQ(NameOf(Input::kSortedUp), "sorted_up");
  EXPECT_STREQ(NameOf(Input::kSortedDown), "sorted_down");
  EXPECT_STREQ(NameOf(Input::kOneBin), "one_bin");
  EXPECT_STREQ(FormatOf(ScoreType::kFloat32).name, "fp32");
  EXPECT_STREQ(FormatOf(ScoreType::kFloat16).name, "fp16");
  EXPECT_STREQ(FormatOf(ScoreType::kBFloat16).name, "bf16");
}

TEST(SelectCasesTest, SampledShapesAreLegalAndBounded) {
  testing::Random random(testing::TestSeed());
  for (const SelectCase& problem : SampledCases(500, random)) {
    SCOPED_TRACE(Describe(problem));
    const Shape& shape = problem.shape;
    EXPECT_TRUE(shape.batch >= 1 && shape.batch <= kBatchMax);
    EXPECT_TRUE(shape.k >= 1 && shape.k <= shape.n);
    EXPECT_TRUE(problem.stride == 0 || problem.stride >= shape.n);
    EXPECT_LE(shape.batch * shape.n, kSampledScoresMax);
  }
}

}  // namespace
}  // namespace nearfield::select
