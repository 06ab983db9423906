// What codes prove: no canonical score lies above its bound, whatever the row and the query.
#include "engine/corpus/scan_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/corpus/rotation.h"
#include "engine/score/certified_bound.h"
#include "engine/score/score.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::corpus {
namespace {

using testing::Random;
using Vector = std::vector<float>;

double Canonical(const Vector& query, const Vector& row, bool l2) {
  std::array<double, score::kAccumulators> sums{};
  for (size_t d = 0; d < row.size(); ++d) {
    double& sum = sums[d % sums.size()];
    sum = l2 ? score::L2Step(query[d], row[d], sum) : score::DotStep(query[d], row[d], sum);
  }
  return score::ReduceAccumulators(sums.data());
}

struct EncodedRow {
  std::vector<int8_t> codes;
  score::RowBound bound;
};
EncodedRow Encode(const Rotation& rotation, const Vector& row) {
  EncodedRow encoded{std::vector<int8_t>(row.size()), {}};
  encoded.bound = EncodeRow(rotation, row, absl::MakeSpan(encoded.codes));
  return encoded;
}

struct EncodedQuery {
  std::vector<int8_t> first;
  std::vector<int8_t> second;
  score::QueryBound bound;
};
EncodedQuery EncodeAsQuery(const Rotation& rotation, const Vector& query) {
  EncodedQuery encoded{std::vector<int8_t>(query.size()), std::vector<int8_t>(query.size()), {}};
  encoded.bound =
      EncodeQuery(rotation, query, absl::MakeSpan(encoded.first), absl::MakeSpan(encoded.second));
  return encoded;
}

int32_t Product(const std::vector<int8_t>& a, const std::vector<int8_t>& b) {
  int32_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += int32_t{a[i]} * b[i];
  return sum;
}

float Upper(const EncodedQuery& query, const EncodedRow& row) {
  const float product = score::CodeProduct(row.bound, query.bound, Product(query.first, row.codes),
                                           Product(query.second, row.codes));
  // A row whose product says nothing is kept.
  if (!std::isfinite(product)) return std::numeric_limits<float>::infinity();
  return score::UpperDot(row.bound, query.bound, product);
}

// Dropping a row needs a comparison that its bound passes: the score must not be above it.
void ExpectBounds(const Rotation& rotation, const Vector& query, const Vector& row) {
  const EncodedQuery encoded_query = EncodeAsQuery(rotation, query);
  const EncodedRow encoded_row = Encode(rotation, row);
  const float upper = Upper(encoded_query, encoded_row);
  const double s = Canonical(query, row, false);
  const auto below = [](double score, float bound) {
    return std::isnan(bound) || score <= static_cast<double>(bound);
  };
  ASSERT_PRED2(below, s, upper);
  ASSERT_PRED2(below, static_cast<double>(score::DotScore(s)), upper);
  const double query_squared = Canonical(query, query, false);
  const double row_squared = Canonical(row, row, false);
  if (query_squared > 0.0) {
    ASSERT_PRED2(below, static_cast<double>(score::CosineScore(s, query_squared, row_squared)),
                 score::UpperCosine(upper, query_squared, row_squared));
  }
  ASSERT_PRED2(below, static_cast<double>(score::L2Score(Canonical(query, row, true))),
               score::UpperL2(upper, query_squared, row_squared, static_cast<int64_t>(row.size())));
}

enum class Kind { kGaussian, kOutliers, kSparse, kConstant, kSmall, kGreat, kWild };
constexpr std::array kKinds = {Kind::kGaussian, Kind::kOutliers, Kind::kSparse, Kind::kConstant,
                               Kind::kSmall,    Kind::kGreat,    Kind::kWild};

Vector AnyVector(Random& random, int64_t dimension, Kind kind) {
  Vector vector(static_cast<size_t>(dimension));
  const float constant = random.Gaussian();
  for (float& value : vector) {
    value = random.Gaussian();
    switch (kind) {
      case Kind::kGaussian:
        break;
      case Kind::kOutliers:
        if (random.OneIn(50)) value *= 1000.0f;
        break;
      case Kind::kSparse:
        if (!random.OneIn(20)) value = 0.0f;
        break;
      case Kind::kConstant:
        value = constant;
        break;
      case Kind::kSmall:
        value = std::ldexp(value, -140);
        break;
      case Kind::kGreat:
        value = std::ldexp(value, 120);
        break;
      case Kind::kWild:
        value = std::ldexp(value, static_cast<int>(random.Between(-145, 124)));
        break;
    }
  }
  return vector;
}

constexpr std::array<int64_t, 13> kDimensions = {1,   2,   3,   5,    8,    31,  64,
                                                 100, 384, 768, 1000, 1024, 1536};

TEST(RotationTest, RowsAndQueriesRotatedKeepTheirProduct) {
  Random random(testing::TestSeed());
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
    // Two ways, the second over a norm of at most twice the first.
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
  Random random(testing::TestSeed());
  for (const int64_t dimension : kDimensions) {
    for (const Kind row_kind : kKinds) {
      for (const Kind query_kind : kKinds) {
        SCOPED_TRACE(::testing::Message()
                     << "dimension " << dimension << ", row kind " << static_cast<int>(row_kind)
                     << ", query kind " << static_cast<int>(query_kind));
        for (int round = 0; round < 4; ++round) {
          const Rotation rotation(dimension, random.Bits());
          const Vector row = AnyVector(random, dimension, row_kind);
          Vector query = AnyVector(random, dimension, query_kind);
          if (random.OneIn(4)) query = row;
          ASSERT_NO_FATAL_FAILURE(ExpectBounds(rotation, query, row));
        }
      }
    }
  }
}

// The query points where the code errs most: the error reaches the bound but for its slack.
TEST(ScanCodeTest, AQueryAlongTheResidualStaysBelowTheBound) {
  Random random(testing::TestSeed());
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    const Rotation rotation(dimension, random.Bits());
    for (const Kind kind : {Kind::kGaussian, Kind::kOutliers, Kind::kSparse}) {
      const Vector row = AnyVector(random, dimension, kind);
      const EncodedRow encoded = Encode(rotation, row);
      std::vector<double> residual(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        residual[i] = static_cast<double>(encoded.bound.scale) * encoded.codes[i];
      }
      rotation.BringBackWithQuery(absl::MakeSpan(residual));
      Vector query(row.size());
      double norm = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        residual[i] = static_cast<double>(row[i]) - residual[i];
        norm += residual[i] * residual[i];
        query[i] = static_cast<float>(residual[i]);
      }
      ASSERT_LE(std::sqrt(norm), static_cast<double>(encoded.bound.residual) * (1 + 0x1p-40));
      ASSERT_NO_FATAL_FAILURE(ExpectBounds(rotation, query, row));
      for (float& value : query) value = -value;
      ASSERT_NO_FATAL_FAILURE(ExpectBounds(rotation, query, row));
    }
  }
}

// A bound that is never wrong because it says nothing is of no use.
TEST(ScanCodeTest, TheBoundIsTightOnGaussianRows) {
  Random random(testing::TestSeed());
  constexpr int64_t kDimension = 768;
  const Rotation rotation(kDimension, random.Bits());
  for (int round = 0; round < 50; ++round) {
    const Vector row = AnyVector(random, kDimension, Kind::kGaussian);
    const Vector query = AnyVector(random, kDimension, Kind::kGaussian);
    const double s = Canonical(query, row, false);
    const double norms = std::sqrt(Canonical(query, query, false) * Canonical(row, row, false));
    const auto upper =
        static_cast<double>(Upper(EncodeAsQuery(rotation, query), Encode(rotation, row)));
    EXPECT_LE(upper - s, 0.02 * norms);
  }
}

// Every row and query of small integers.
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
  const Vector great(64, std::numeric_limits<float>::max());
  const EncodedRow row = Encode(rotation, great);
  const EncodedQuery query = EncodeAsQuery(rotation, Vector(64, 1.0f));
  EXPECT_FALSE(Upper(query, row) < std::numeric_limits<float>::max());
  const EncodedRow plain = Encode(rotation, Vector(64, 1.0f));
  EXPECT_FALSE(Upper(EncodeAsQuery(rotation, great), plain) < std::numeric_limits<float>::max());
  // Zeros: everything is known.
  const EncodedRow zero = Encode(rotation, Vector(64, 0.0f));
  EXPECT_EQ(zero.bound.norm, 0.0f);
  EXPECT_LE(zero.bound.residual, 0x1p-140f);
}

}  // namespace
}  // namespace nearfield::corpus
