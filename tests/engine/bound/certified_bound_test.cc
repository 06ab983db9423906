// Tests of the formulas of the certified bounds, term by term, because few corpora would reveal a
// missing term.
#include "engine/bound/certified_bound.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nearfield::bound {
namespace {

constexpr int64_t kDimension = 1024;

// The sums of an L2 bound have errors of up to 2^-20 of S(x, x) (score.h): the subtracted square
// must be lowered by more than that.
TEST(SquaredNormLower, LiesBelowTheSquareByTheRoundingOfItsSums) {
  for (const double squared : {0x1p-100, 0.7, 1.0, 3.0e5, 0x1.fffffep99}) {
    const auto squared_norm_lower = static_cast<double>(SquaredNormLower(squared));
    EXPECT_LE(squared_norm_lower, squared * (1.0 - 0x1p-19)) << squared;
    EXPECT_GE(squared_norm_lower, squared * (1.0 - 0x1p-18)) << squared;
  }
  EXPECT_EQ(SquaredNormLower(0.0), 0.0f);
  EXPECT_EQ(SquaredNormLower(0x1p1000), 0x1p127f)
      << "never infinite: infinity less infinity is no bound";
}

// The inverse rotation of a code has an error relative to the norm of the code.
TEST(RowBound, TheResidualCountsTheErrorOfTheRotation) {
  const RowBound exact = MakeRowBound(1.0f, 4.0, 8.0, 0.0, 0.0, kDimension);
  const RowBound rotated = MakeRowBound(1.0f, 4.0, 8.0, 0.25, 0.0, kDimension);
  EXPECT_GE(exact.residual, 2.0f);
  EXPECT_GE(rotated.residual, 4.0f);
  EXPECT_LE(rotated.residual, 4.001f);
}

TEST(RowBound, NormsAreRoundedUp) {
  const double norm = 1.0 + 0x1p-30;
  EXPECT_GT(static_cast<double>(MakeRowBound(1.0f, 0.0, norm, 0.0, 0.0, 1).norm), norm);
  EXPECT_GE(CodeNormUp(1.0f, 2), std::sqrt(2.0));
}

}  // namespace
}  // namespace nearfield::bound
