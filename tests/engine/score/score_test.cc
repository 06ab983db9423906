// Tests of the canonical score: properties that the golden values (tests/golden) do not cover, and
// the arithmetic it needs.
#include "engine/score/score.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "tests/testing/random.h"
#include "tests/testing/seed.h"

#ifdef __FAST_MATH__
#error "scores are bit-exact by contract: -ffast-math and -Ofast are not allowed"
#endif
static_assert(FLT_EVAL_METHOD == 0,
              "fp32 and fp64 expressions must be evaluated in their own type");
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

namespace nearfield::score {
namespace {

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float AnyFinite(testing::Random& random) {
  for (;;) {
    const float value = FloatFromBits(static_cast<uint32_t>(random.Bits()));
    if (std::isfinite(value)) return value;
  }
}

using Step = double (*)(double, double, double);
double Sum(Step step, const std::vector<float>& query, const std::vector<float>& row) {
  double sums[kAccumulators] = {};
  for (size_t d = 0; d < query.size(); ++d) {
    double& sum = sums[d % kAccumulators];
    sum = step(static_cast<double>(query[d]), static_cast<double>(row[d]), sum);
  }
  return ReduceAccumulators(sums);
}

double FusedDotStep(double query, double row, double sum) { return std::fma(query, row, sum); }

TEST(Arithmetic, KeepsDenormalsInBothPrecisions) {
  volatile float least = std::numeric_limits<float>::denorm_min();
  volatile float half = 0.5f;
  volatile float small = std::numeric_limits<float>::min();
  EXPECT_GT(small * half, 0.0f) << "denormal results are flushed to zero (FTZ)";
  EXPECT_GT(least * 2.0f, 0.0f) << "denormal inputs are taken as zero (DAZ)";
  volatile double small64 = std::numeric_limits<double>::min();
  EXPECT_GT(small64 * 0.5, 0.0);
  EXPECT_EQ(DotScore(static_cast<double>(least)), std::numeric_limits<float>::denorm_min());
}

TEST(Arithmetic, RoundsToNearestEvenWithoutFlushing) {
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
#ifdef __SSE2__
  EXPECT_EQ(_mm_getcsr() & 0x8040u, 0u) << "FTZ is bit 15 of MXCSR, DAZ bit 6";
#endif
}

TEST(Arithmetic, AddsInTheOrderWritten) {
  volatile double big = 0x1p60;
  volatile double one = 1.0;
  EXPECT_EQ((big + one) - big, 0.0) << "sums must not be reassociated";
  volatile float minus_zero = -0.0f;
  EXPECT_FALSE(std::signbit(minus_zero + 0.0f)) << "x + 0 must not be folded into x";
}

TEST(DotStep, GivesTheSameBitsFusedAndUnfused) {
  testing::Random random(testing::TestSeed());
  for (int i = 0; i < 100000; ++i) {
    const auto query = static_cast<double>(AnyFinite(random));
    const auto row = static_cast<double>(AnyFinite(random));
    const double sum =
        static_cast<double>(AnyFinite(random)) * static_cast<double>(AnyFinite(random));
    ASSERT_EQ(Bits(DotStep(query, row, sum)), Bits(FusedDotStep(query, row, sum)));
  }
}

TEST(L2Step, IsFused) {
  // (1 + 2^-30)^2 = 1 + 2^-29 + 2^-60; the last term is lost unless the addition of -1 comes before
  // the rounding.
  const double t = 1.0 + 0x1p-30;
  EXPECT_EQ(L2Step(t, 0.0, -1.0), 0x1p-29 + 0x1p-60);
}

TEST(Sum, PaddingWithZerosChangesNothing) {
  testing::Random random(testing::TestSeed());
  for (const Step step : {Step{DotStep}, Step{L2Step}}) {
    for (size_t dim = 1; dim <= 70; ++dim) {
      std::vector<float> query(dim);
      std::vector<float> row(dim);
      for (size_t d = 0; d < dim; ++d) {
        query[d] = random.OneIn(4) ? -0.0f : AnyFinite(random);
        row[d] = random.OneIn(4) ? 0.0f : AnyFinite(random);
      }
      const double sum = Sum(step, query, row);
      for (size_t zeros = 1; zeros <= 70; ++zeros) {
        query.push_back(0.0f);
        row.push_back(random.OneIn(2) && step == Step{DotStep} ? -0.0f : 0.0f);
        ASSERT_EQ(Bits(Sum(step, query, row)), Bits(sum))
            << "dim " << dim << " and " << zeros << " zeros";
      }
    }
  }
}

TEST(Sum, IsNeverMinusZeroNorInfinite) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_FALSE(std::signbit(Sum(DotStep, {-0.0f, -0.0f}, {1.0f, 1.0f})));
  EXPECT_FALSE(std::signbit(Sum(DotStep, {1.0f, 1.0f}, {3.0f, -3.0f})));
  const std::vector<float> greatest(8192, kMax);
  const std::vector<float> least(8192, -kMax);
  EXPECT_TRUE(std::isfinite(Sum(DotStep, greatest, greatest)));
  EXPECT_TRUE(std::isfinite(Sum(L2Step, greatest, least)));
}

TEST(Scores, AreNeverMinusZero) {
  EXPECT_EQ(BitsFromFloat(DotScore(-0x1p-200)), 0u) << "a negative sum that rounds to -0";
  EXPECT_EQ(BitsFromFloat(CosineScore(-0x1p-200, 1.0, 1.0)), 0u);
  EXPECT_EQ(BitsFromFloat(L2Score(0.0)), 0u) << "equal vectors";
  EXPECT_EQ(BitsFromFloat(L2Score(0x1p-200)), 0u);
}

TEST(Scores, OverflowToInfinity) {
  EXPECT_EQ(DotScore(0x1p128), std::numeric_limits<float>::infinity());
  EXPECT_EQ(DotScore(-0x1p128), MinusInfinity());
  EXPECT_EQ(L2Score(0x1p128), MinusInfinity());
}

TEST(CosineScore, OfAZeroRowIsMinusInfinity) {
  EXPECT_EQ(CosineScore(0.0, 1.0, 0.0), MinusInfinity());
}

TEST(CosineScore, StaysWithinOne) {
  EXPECT_EQ(CosineScore(1.001, 1.0, 1.0), 1.0f);
  EXPECT_EQ(CosineScore(-1.001, 1.0, 1.0), -1.0f);
  EXPECT_EQ(CosineScore(0x1p-298, 0x1p-298, 0x1p-298), 1.0f)
      << "the square of the smallest denormal";
}

}  // namespace
}  // namespace nearfield::score
