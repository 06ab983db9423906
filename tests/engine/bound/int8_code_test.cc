// Tests that no canonical score is above its bound from codes, for any row and query.
#include "engine/bound/int8_code.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/bound/certified_bound.h"
#include "engine/bound/rotation.h"
#include "tests/engine/bound/bound_cases.h"
#include "tests/engine/prelude.h"

namespace nearfield::bound {
namespace {

struct EncodedRow {
  std::vector<int8_t> codes;
  RowBound bound;
  std::vector<int8_t> second;
  RowBound both;
};
EncodedRow Encode(const Rotation& rotation, Metric metric, const Vector& row) {
  EncodedRow encoded{std::vector<int8_t>(row.size()), {}, std::vector<int8_t>(row.size()), {}};
  encoded.bound = EncodeRow(rotation, metric, row, absl::MakeSpan(encoded.codes));
  std::vector<int8_t> first(row.size());
  encoded.both =
      EncodeRowTwice(rotation, metric, row, absl::MakeSpan(first), absl::MakeSpan(encoded.second))
          .both;
  EXPECT_EQ(first, encoded.codes);
  return encoded;
}

struct EncodedQuery {
  std::vector<int8_t> first;
  std::vector<int8_t> second;
  QueryBounds bounds;
};
EncodedQuery EncodeAsQuery(const Rotation& rotation, Metric metric, const Vector& query) {
  EncodedQuery encoded{std::vector<int8_t>(query.size()), std::vector<int8_t>(query.size()), {}};
  encoded.bounds = EncodeQuery(rotation, metric, query, absl::MakeSpan(encoded.first),
                               absl::MakeSpan(encoded.second));
  return encoded;
}

int32_t Product(const std::vector<int8_t>& a, const std::vector<int8_t>& b) {
  int32_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += int32_t{a[i]} * b[i];
  return sum;
}

float Upper(const EncodedQuery& query, const EncodedRow& row) {
  return UpperScore(row.bound, query.bounds.both,
                    CodeProduct(query.bounds.both, Product(query.first, row.codes),
                                Product(query.second, row.codes)));
}
float UpperOfFirst(const EncodedQuery& query, const EncodedRow& row) {
  return UpperScore(row.bound, query.bounds.first_only,
                    CodeProduct(query.bounds.first_only, Product(query.first, row.codes)));
}

// Returns the bounds from both codes of the row.
ScoreRange Range(const EncodedQuery& query, const EncodedRow& row) {
  const QueryBound& both = query.bounds.both;
  return RangeOfScore(
      row.bound, row.both, both,
      CodeProduct(both, Product(query.first, row.codes), Product(query.second, row.codes)),
      CodeProduct(both, Product(query.first, row.second), Product(query.second, row.second)));
}

// Checks the comparisons by which a search drops rows and raises thresholds: the score must not be
// above an upper bound or below a lower one.
void ExpectBounds(const Rotation& rotation, const Vector& query, const Vector& row) {
  for (const Metric metric : kMetrics) {
    if (metric == Metric::kCosine && IsZero(query)) continue;
    SCOPED_TRACE(::testing::Message() << "metric " << static_cast<int>(metric));
    const EncodedQuery encoded_query = EncodeAsQuery(rotation, metric, query);
    const EncodedRow encoded_row = Encode(rotation, metric, row);
    const auto below = [](float score, float bound) { return !(bound < score); };
    const float score = CanonicalScore(metric, query, row);
    ASSERT_PRED2(below, score, Upper(encoded_query, encoded_row));
    ASSERT_PRED2(below, score, UpperOfFirst(encoded_query, encoded_row));
    const ScoreRange range = Range(encoded_query, encoded_row);
    ASSERT_PRED2(below, score, range.upper);
    ASSERT_LE(range.lower, score);  // and a number
  }
}

TEST(RotationTest, RowsAndQueriesRotatedKeepTheirProduct) {
  Random random(TestSeed());
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    const Rotation rotation(dimension, random.Bits());
    const Vector x = AnyVector(random, dimension, Kind::kGaussian);
    std::vector<double> there(x.begin(), x.end());
    rotation.RotateRow(absl::MakeSpan(there));
    rotation.BringBackWithQuery(absl::MakeSpan(there));
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += std::pow(there[i] - static_cast<double>(x[i]), 2);
      norm += std::pow(static_cast<double>(x[i]), 2);
    }
    // Two rotations; the argument of the second has at most twice the norm of the first.
    EXPECT_LE(std::sqrt(error), 4.0 * rotation.RelativeError() * std::sqrt(norm));
  }
}

TEST(RotationTest, ASeedGivesOneRotation) {
  const Rotation a(96, 7);
  const Rotation b(96, 7);
  const Rotation c(96, 8);
  std::vector<double> of_a(96, 1.0);
  std::vector<double> of_b(96, 1.0);
  std::vector<double> of_c(96, 1.0);
  a.RotateRow(absl::MakeSpan(of_a));
  b.RotateRow(absl::MakeSpan(of_b));
  c.RotateRow(absl::MakeSpan(of_c));
  EXPECT_EQ(of_a, of_b);
  EXPECT_NE(of_a, of_c);
}

TEST(ScanCodeTest, NoScoreLiesAboveItsBound) {
  Random random(TestSeed());
  ForEachPair(random, [&random](const Vector& query, const Vector& row) {
    ExpectBounds(Rotation(static_cast<int64_t>(row.size()), random.Bits()), query, row);
  });
}

// The query points along the residual of one code or of both, where the error of the code reaches
// the bound up to its slack.
TEST(ScanCodeTest, AQueryAlongTheResidualStaysBelowTheBound) {
  Random random(TestSeed());
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    const Rotation rotation(dimension, random.Bits());
    for (const Kind kind : {Kind::kGaussian, Kind::kOutliers, Kind::kSparse}) {
      const Vector row = AnyVector(random, dimension, kind);
      const EncodedRow encoded = Encode(rotation, Metric::kDot, row);
      for (const bool both : {false, true}) {
        std::vector<double> residual(row.size());
        for (size_t i = 0; i < row.size(); ++i) {
          residual[i] = static_cast<double>(encoded.bound.scale) * encoded.codes[i];
          if (both) residual[i] += static_cast<double>(encoded.both.scale) * encoded.second[i];
        }
        rotation.BringBackWithQuery(absl::MakeSpan(residual));
        Vector query(row.size());
        double norm = 0;
        for (size_t i = 0; i < row.size(); ++i) {
          residual[i] = static_cast<double>(row[i]) - residual[i];
          norm += residual[i] * residual[i];
          query[i] = static_cast<float>(residual[i]);
        }
        const RowBound& bound = both ? encoded.both : encoded.bound;
        ASSERT_LE(std::sqrt(norm), static_cast<double>(bound.residual) * (1 + 0x1p-40));
        ASSERT_NO_FATAL_FAILURE(ExpectBounds(rotation, query, row));
        for (float& value : query) value = -value;
        ASSERT_NO_FATAL_FAILURE(ExpectBounds(rotation, query, row));
      }
    }
  }
}

// A bound that always holds because it is loose would be useless.
TEST(ScanCodeTest, TheBoundIsTightOnGaussianRows) {
  Random random(TestSeed());
  constexpr int64_t kDim = 768;
  const Rotation rotation(kDim, random.Bits());
  for (int round = 0; round < 50; ++round) {
    const Vector row = AnyVector(random, kDim, Kind::kGaussian);
    const Vector query = AnyVector(random, kDim, Kind::kGaussian);
    const double norms = std::sqrt(Canonical(query, query, false) * Canonical(row, row, false));
    for (const Metric metric : kMetrics) {
      const EncodedQuery encoded_query = EncodeAsQuery(rotation, metric, query);
      const EncodedRow encoded_row = Encode(rotation, metric, row);
      const double score = CanonicalScore(metric, query, row);
      const double unit = metric == Metric::kCosine ? 1.0
                          : metric == Metric::kL2   ? 2 * norms
                                                    : norms;
      EXPECT_LE(static_cast<double>(Upper(encoded_query, encoded_row)) - score, 0.02 * unit);
      EXPECT_LE(static_cast<double>(UpperOfFirst(encoded_query, encoded_row)) - score, 0.04 * unit);
      const ScoreRange range = Range(encoded_query, encoded_row);
      EXPECT_LE(static_cast<double>(range.upper) - score, 0.0002 * unit);
      EXPECT_LE(score - static_cast<double>(range.lower), 0.0002 * unit);
    }
  }
}

// Tests every row and query of small integers.
TEST(ScanCodeTest, SmallIntegersExhaustively) {
  struct Case {
    int64_t dimension;
    int most;
  };
  for (const Case& one : {Case{1, 40}, Case{2, 4}, Case{3, 1}, Case{4, 1}}) {
    const int64_t values = 2 * one.most + 1;
    int64_t count = 1;
    for (int64_t d = 0; d < one.dimension; ++d) count *= values;
    const auto vector_of = [&](int64_t number) {
      Vector vector(static_cast<size_t>(one.dimension));
      for (float& value : vector) {
        value = static_cast<float>(number % values - one.most);
        number /= values;
      }
      return vector;
    };
    const Rotation rotation(one.dimension, 1);
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t query = 0; query < count; ++query) {
        ASSERT_NO_FATAL_FAILURE(ExpectBounds(rotation, vector_of(query), vector_of(row)));
      }
    }
  }
}

TEST(ScanCodeTest, WhatNoCodeCanStandForIsNeverDropped) {
  const Rotation rotation(64, 3);
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const Metric metric : {Metric::kDot, Metric::kL2}) {
    const EncodedRow great = Encode(rotation, metric, Vector(64, kMost));
    const EncodedRow plain = Encode(rotation, metric, Vector(64, 1.0f));
    EXPECT_FALSE(Upper(EncodeAsQuery(rotation, metric, Vector(64, 1.0f)), great) < kMost);
    EXPECT_FALSE(Upper(EncodeAsQuery(rotation, metric, Vector(64, kMost)), plain) < kMost);
    EXPECT_FALSE(Upper(EncodeAsQuery(rotation, metric, Vector(64, kMost)), great) < kMost);
    EXPECT_EQ(Range(EncodeAsQuery(rotation, metric, Vector(64, kMost)), plain).lower,
              -std::numeric_limits<float>::infinity());
    EXPECT_EQ(Range(EncodeAsQuery(rotation, metric, Vector(64, 1.0f)), great).lower,
              -std::numeric_limits<float>::infinity());
  }
}

TEST(ScanCodeTest, OfZerosEverythingIsKnown) {
  const Rotation rotation(64, 3);
  const Vector zeros(64, 0.0f);
  const EncodedRow dot = Encode(rotation, Metric::kDot, zeros);
  EXPECT_EQ(dot.bound.norm, 0.0f);
  EXPECT_LE(dot.bound.residual, 0x1p-140f);
  // The cosine of a zero row is -inf, so any threshold drops it.
  const EncodedRow cosine = Encode(rotation, Metric::kCosine, zeros);
  const EncodedQuery query = EncodeAsQuery(rotation, Metric::kCosine, Vector(64, 1.0f));
  EXPECT_EQ(Upper(query, cosine), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(Range(query, cosine).upper, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(Range(query, cosine).lower, -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace nearfield::bound
