// What a bf16 copy proves: no canonical score lies above its bound, whatever the row, the query and
// the order that products are summed in.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/corpus/scan_code.h"
#include "engine/score/bf16_bound.h"
#include "engine/score/row_types.h"
#include "tests/engine/corpus/bound_cases.h"
#include "tests/testing/seed.h"

namespace nearfield::corpus {
namespace {

struct CopiedRow {
  Vector copy;
  score::RowBound bound;
};
CopiedRow CopyOf(Metric metric, const Vector& row) {
  std::vector<uint16_t> bits(row.size());
  CopiedRow copied;
  copied.bound = EncodeBf16Row(metric, row, absl::MakeSpan(bits));
  for (const uint16_t element : bits) {
    copied.copy.push_back(score::FloatFromBfloat16Bits(element));
  }
  return copied;
}

struct Multiplied {
  Vector query;
  score::QueryBound bound;
};
Multiplied MultipliedOf(Metric metric, const Vector& query) {
  Multiplied multiplied;
  multiplied.query.resize(query.size());
  multiplied.bound = EncodeBf16Query(metric, query, absl::MakeSpan(multiplied.query));
  return multiplied;
}
// By one limb of bf16, as tensor cores take it.
Multiplied LimbOf(Metric metric, const Vector& query) {
  const auto dimension = static_cast<int64_t>(query.size());
  const double squared = Canonical(query, query, false);
  const double norm = metric == Metric::kCosine ? std::sqrt(squared) : 1.0;
  Multiplied limb;
  double squares = 0;
  double rest_squares = 0;
  for (const float element : query) {
    const double value = static_cast<double>(element) / norm;
    limb.query.push_back(
        score::FloatFromBfloat16Bits(score::Bf16CopyBits(static_cast<float>(value))));
    const double rest = value - static_cast<double>(limb.query.back());
    squares += value * value;
    rest_squares += rest * rest;
  }
  limb.bound = score::MakeBf16QueryBound({.query = score::NormUp(squares, dimension),
                                          .rest = score::NormUp(rest_squares, dimension),
                                          .sum_error = score::Bf16TensorError(dimension)},
                                         metric == Metric::kL2, squared, dimension);
  return limb;
}

// Sums in fp32 of which the terms come first to last, last to first, in a tree, or fused.
enum class Order { kForward, kBackward, kTree, kFused };
constexpr std::array kOrders = {Order::kForward, Order::kBackward, Order::kTree, Order::kFused};

float Sum(const Vector& a, const Vector& b, Order order) {
  float sum = 0;
  if (order == Order::kForward) {
    for (size_t i = 0; i < a.size(); ++i) sum = score::Plus(sum, score::Times(a[i], b[i]));
  } else if (order == Order::kBackward) {
    for (size_t i = a.size(); i-- > 0;) sum = score::Plus(sum, score::Times(a[i], b[i]));
  } else if (order == Order::kFused) {
    for (size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], b[i], sum);
  } else {
    Vector terms(a.size());
    for (size_t i = 0; i < a.size(); ++i) terms[i] = score::Times(a[i], b[i]);
    for (size_t step = 1; step < terms.size(); step *= 2) {
      for (size_t i = 0; i + step < terms.size(); i += 2 * step) {
        terms[i] = score::Plus(terms[i], terms[i + step]);
      }
    }
    sum = terms[0];
  }
  return sum;
}

float Upper(const Multiplied& query, const CopiedRow& row, Order order) {
  return score::UpperScore(row.bound, query.bound,
                           score::CodeProduct(query.bound, Sum(query.query, row.copy, order)));
}

// Dropping a row needs a comparison that its bound passes: the score must not be above it.
void ExpectBounds(const Vector& query, const Vector& row) {
  for (const Metric metric : kMetrics) {
    if (metric == Metric::kCosine && IsZero(query)) continue;
    SCOPED_TRACE(::testing::Message() << "metric " << static_cast<int>(metric));
    const CopiedRow copied = CopyOf(metric, row);
    const auto below = [](float score, float bound) { return !(bound < score); };
    const float score = CanonicalScore(metric, query, row);
    for (const Order order : kOrders) {
      ASSERT_PRED2(below, score, Upper(MultipliedOf(metric, query), copied, order));
      ASSERT_PRED2(below, score, Upper(LimbOf(metric, query), copied, order));
    }
  }
}

TEST(Bf16CopyTest, ElementsAreRoundedToNearestEven) {
  constexpr float kLeast = 0x1p-126f;
  const float most = score::FloatFromBfloat16Bits(0x7f7f);
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = score::FloatFromBits(upper << 16 | lower);
      if (!std::isfinite(value)) continue;
      const uint16_t bits = score::Bf16CopyBits(value);
      const float got = score::FloatFromBfloat16Bits(bits);
      // The neighbors: the same upper half, and the next away from zero.
      const float toward = score::FloatFromBits(upper << 16);
      const float away = score::FloatFromBits((upper + 1) << 16);
      float want = toward;
      if (lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1)) want = away;
      if (!(std::fabs(want) >= kLeast) || std::fabs(want) > most) want = 0.0f;
      ASSERT_EQ(got, want) << value;
    }
  }
}

TEST(Bf16CopyTest, NoScoreLiesAboveItsBound) {
  Random random(testing::TestSeed());
  for (const int64_t dimension : kDimensions) {
    for (const Kind row_kind : kKinds) {
      for (const Kind query_kind : kKinds) {
        SCOPED_TRACE(::testing::Message()
                     << "dimension " << dimension << ", row kind " << static_cast<int>(row_kind)
                     << ", query kind " << static_cast<int>(query_kind));
        for (int round = 0; round < 4; ++round) {
          const Vector row = AnyVector(random, dimension, row_kind);
          Vector query = AnyVector(random, dimension, query_kind);
          if (random.OneIn(4)) query = row;
          ASSERT_NO_FATAL_FAILURE(ExpectBounds(query, row));
        }
      }
    }
  }
}

// The query points where the copy errs most: the error reaches the bound but for its slack.
TEST(Bf16CopyTest, AQueryAlongTheResidualStaysBelowTheBound) {
  Random random(testing::TestSeed());
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    for (const Kind kind : {Kind::kGaussian, Kind::kOutliers, Kind::kSparse}) {
      const Vector row = AnyVector(random, dimension, kind);
      const CopiedRow copied = CopyOf(Metric::kDot, row);
      Vector query(row.size());
      double norm = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        query[i] = row[i] - copied.copy[i];  // exact
        norm += static_cast<double>(query[i]) * static_cast<double>(query[i]);
      }
      ASSERT_LE(std::sqrt(norm), static_cast<double>(copied.bound.residual) * (1 + 0x1p-40));
      ASSERT_GE(std::sqrt(norm),
                static_cast<double>(copied.bound.residual) * (1 - 0x1p-20) - 0x1p-149);
      ASSERT_NO_FATAL_FAILURE(ExpectBounds(query, row));
      for (float& value : query) value = -value;
      ASSERT_NO_FATAL_FAILURE(ExpectBounds(query, row));
    }
  }
}

// Each product is lost against the first, and all of them together are a quarter of what is
// allowed: without that the bound would be below the score.
TEST(Bf16CopyTest, WhatSumsLoseIsAllowedFor) {
  for (const size_t dimension : {2, 64, 1024, 8192}) {
    SCOPED_TRACE(dimension);
    Vector row(dimension, 0x1.6p-13f);  // squared: less than half of the last bit of 1
    row[0] = 1.0f;
    const Multiplied query = MultipliedOf(Metric::kDot, row);
    const CopiedRow copied = CopyOf(Metric::kDot, row);
    const float sum = Sum(query.query, copied.copy, Order::kForward);
    ASSERT_EQ(sum, 1.0f);
    const double lost = Canonical(row, row, false) - 1.0;
    EXPECT_GE(lost, 0.2 * score::Bf16SumError(static_cast<int64_t>(dimension)) - 8 * 0x1p-23);
    ASSERT_NO_FATAL_FAILURE(ExpectBounds(row, row));
  }
}

// Great products that cancel, beside small ones that they swallow.
TEST(Bf16CopyTest, RowsWhoseProductsCancelStayBelowTheBound) {
  Random random(testing::TestSeed());
  for (const size_t dimension : {3, 16, 64, 100, 1024, 4097}) {
    SCOPED_TRACE(dimension);
    for (int round = 0; round < 20; ++round) {
      Vector row(dimension);
      Vector query(dimension);
      for (size_t i = 0; i + 1 < dimension; i += 2) {
        const float great = std::ldexp(1.0f, static_cast<int>(random.Between(0, 30)));
        row[i] = score::FloatFromBfloat16Bits(score::Bf16CopyBits(random.Gaussian()));
        row[i + 1] = row[i];
        query[i] = random.Gaussian() * great;
        query[i + 1] = -query[i] * (random.OneIn(2) ? 1.0f : 1.0f + 0x1p-20f);
      }
      random.Shuffle(row);
      ASSERT_NO_FATAL_FAILURE(ExpectBounds(query, row));
    }
  }
}

// A bound that is never wrong because it says nothing is of no use.
TEST(Bf16CopyTest, TheBoundIsTightOnGaussianRows) {
  Random random(testing::TestSeed());
  constexpr int64_t kDimension = 768;
  for (int round = 0; round < 50; ++round) {
    const Vector row = AnyVector(random, kDimension, Kind::kGaussian);
    const Vector query = AnyVector(random, kDimension, Kind::kGaussian);
    const double norms = std::sqrt(Canonical(query, query, false) * Canonical(row, row, false));
    for (const Metric metric : kMetrics) {
      const CopiedRow copied = CopyOf(metric, row);
      const double score = CanonicalScore(metric, query, row);
      const double unit = metric == Metric::kCosine ? 1.0
                          : metric == Metric::kL2   ? 2 * norms
                                                    : norms;
      const auto slack = [&](const Multiplied& by) {
        return static_cast<double>(Upper(by, copied, Order::kForward)) - score;
      };
      EXPECT_LE(slack(MultipliedOf(metric, query)), 0.004 * unit);
      EXPECT_LE(slack(LimbOf(metric, query)), 0.008 * unit);
    }
  }
}

// Every row and query of small integers, and of halves of the last bit of bf16.
TEST(Bf16CopyTest, SmallNumbersExhaustively) {
  struct Case {
    int64_t dimension;
    int most;
    float unit;
    float offset;
  };
  for (const Case& one : {Case{1, 40, 1.0f, 0.0f}, Case{2, 4, 1.0f, 0.0f}, Case{3, 1, 1.0f, 0.0f},
                          Case{1, 20, 0x1p-9f, 1.0f}, Case{2, 4, 0x1p-9f, -1.0f},
                          Case{2, 4, 0x1p-149f, 0.0f}, Case{2, 3, 0x1p-134f, 0x1p-126f}}) {
    const int64_t values = 2 * one.most + 1;
    int64_t count = 1;
    for (int64_t d = 0; d < one.dimension; ++d) count *= values;
    const auto vector_of = [&](int64_t number) {
      Vector vector(static_cast<size_t>(one.dimension));
      for (float& value : vector) {
        value = one.offset + one.unit * static_cast<float>(number % values - one.most);
        number /= values;
      }
      return vector;
    };
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t query = 0; query < count; ++query) {
        ASSERT_NO_FATAL_FAILURE(ExpectBounds(vector_of(query), vector_of(row)));
      }
    }
  }
}

TEST(Bf16CopyTest, WhatNoCopyCanStandForIsNeverDropped) {
  constexpr float kMost = std::numeric_limits<float>::max();
  Vector one_great(64, 1.0f);
  one_great[17] = -kMost;
  for (const Metric metric : {Metric::kDot, Metric::kL2}) {
    const Multiplied plain = MultipliedOf(metric, Vector(64, 1.0f));
    for (const Vector& row : {Vector(64, kMost), Vector(64, -kMost), one_great}) {
      const CopiedRow great = CopyOf(metric, row);
      for (const float element : great.copy) EXPECT_TRUE(std::isfinite(element));
      for (const Order order : kOrders) {
        EXPECT_FALSE(Upper(plain, great, order) < kMost);
        EXPECT_FALSE(Upper(MultipliedOf(metric, row), great, order) < kMost);
        EXPECT_FALSE(Upper(LimbOf(metric, row), great, order) < kMost);
        EXPECT_FALSE(Upper(MultipliedOf(metric, row), CopyOf(metric, Vector(64, 1.0f)), order) <
                     kMost);
      }
    }
  }
}

TEST(Bf16CopyTest, OfZerosEverythingIsKnown) {
  const Vector zeros(64, 0.0f);
  const CopiedRow dot = CopyOf(Metric::kDot, zeros);
  EXPECT_LE(dot.bound.norm, 0x1p-140f);
  EXPECT_LE(dot.bound.residual, 0x1p-140f);
  // A zero row's cosine is -inf: any threshold drops it.
  const CopiedRow cosine = CopyOf(Metric::kCosine, zeros);
  EXPECT_EQ(Upper(MultipliedOf(Metric::kCosine, Vector(64, 1.0f)), cosine, Order::kTree),
            -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace nearfield::corpus
