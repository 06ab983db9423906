// Tests that no canonical score is above its bound from 16-bit integers, for any row and query.
#include "engine/bound/integer_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/engine/bound/bound_cases.h"
#include "tests/engine/prelude.h"

namespace nearfield::bound {
namespace {

// Vectors as the device represents them: high and low parts.
struct Integers {
  std::vector<int32_t> high;
  std::vector<int32_t> low;

  void Add(int32_t integer) {
    const IntegerParts parts = PartsOf(integer);
    high.push_back(parts.high);
    low.push_back(parts.low);
  }
};

struct Row {
  Integers integers;
  RowBound bound;
};
Row MakeRow(Metric metric, const Vector& values) {
  const IntegerRow how =
      MakeIntegerRow(metric, Canonical(values, values, false), static_cast<int64_t>(values.size()));
  Row row;
  row.bound = how.bound;
  for (const float value : values) {
    // The device rounds by adding 1.5 * 2^23.
    const float rounded = std::fma(value, how.factor, 0x1.8p23f) - 0x1.8p23f;
    row.integers.Add(static_cast<int32_t>(rounded));
  }
  return row;
}

struct Query {
  Integers integers;
  QueryBound bound;
};
Query MakeQuery(Metric metric, const Vector& values) {
  const auto dimension = static_cast<int64_t>(values.size());
  const double squared = Canonical(values, values, false);
  const double norm = metric == Metric::kCosine ? std::sqrt(squared) : 1.0;
  double magnitude = 0;
  double squares = 0;
  for (const float value : values) {
    const double element = value / norm;
    magnitude = std::max(magnitude, std::abs(element));
    squares += element * element;
  }
  const float scale = CodeScale(magnitude, kIntegerMax);
  const bool usable = scale > 0 && std::isfinite(scale);
  double low = 0;
  double rest = 0;
  Query query;
  for (const float value : values) {
    const double element = value / norm;
    query.integers.Add(usable ? static_cast<int32_t>(CodeOf(element, 1.0 / scale, kIntegerMax))
                              : 0);
    low += std::pow(query.integers.low.back(), 2);
    const int32_t integer = 256 * query.integers.high.back() + query.integers.low.back();
    rest += std::pow(element - (usable ? static_cast<double>(scale) * integer : 0.0), 2);
  }
  query.bound = MakeIntegerQueryBound(metric, usable ? scale : 0.0f,
                                      {.query = NormUp(squares, dimension),
                                       .low = NormUp(low, dimension) * scale,
                                       .rest = NormUp(rest, dimension)},
                                      squares, dimension);
  return query;
}

// Returns S.
int32_t Product(const Integers& query, const Integers& row) {
  int64_t sum = 0;
  for (size_t i = 0; i < row.high.size(); ++i) {
    sum +=
        256 * query.high[i] * row.high[i] + query.high[i] * row.low[i] + query.low[i] * row.high[i];
  }
  EXPECT_LE(std::abs(sum), std::numeric_limits<int32_t>::max());
  return static_cast<int32_t>(sum);
}

float Upper(const Query& query, const Row& row) {
  return UpperScore(row.bound, query.bound,
                    CodeProduct(query.bound, Product(query.integers, row.integers)));
}

// Checks the comparison by which a search drops rows: the score must not be above the bound.
void ExpectIntegerBounds(const Vector& query, const Vector& row) {
  for (const Metric metric : kMetrics) {
    if (metric == Metric::kCosine && IsZero(query)) continue;
    SCOPED_TRACE(::testing::Message() << "metric " << static_cast<int>(metric));
    const Row made = MakeRow(metric, row);
    for (const int32_t part : made.integers.high) ASSERT_LE(std::abs(part), 127);
    const auto below = [](float score, float bound) { return !(bound < score); };
    ASSERT_PRED2(below, CanonicalScore(metric, query, row), Upper(MakeQuery(metric, query), made));
  }
}

TEST(IntegerBoundTest, PartsAreBytesAndMakeTheInteger) {
  for (int32_t integer = -32'500; integer <= 32'500; ++integer) {
    const IntegerParts parts = PartsOf(integer);
    ASSERT_EQ(256 * parts.high + parts.low, integer);
    ASSERT_LE(std::abs(parts.high), 127);
    ASSERT_GE(parts.low, -128);
    ASSERT_LE(parts.low, 127);
  }
}

TEST(IntegerBoundTest, NoScoreLiesAboveItsBound) {
  Random random(TestSeed());
  ForEachPair(random, ExpectIntegerBounds);
}

// The query points along what rounding left of the row, where the error reaches the bound up to its
// slack.
TEST(IntegerBoundTest, AQueryAlongTheResidualStaysBelowTheBound) {
  Random random(TestSeed());
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    for (const Kind kind : {Kind::kGaussian, Kind::kOutliers, Kind::kSparse}) {
      const Vector row = AnyVector(random, dimension, kind);
      const IntegerRow how = MakeIntegerRow(Metric::kDot, Canonical(row, row, false), dimension);
      Vector query(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        const float rounded = std::fma(row[i], how.factor, 0x1.8p23f) - 0x1.8p23f;
        query[i] = row[i] - rounded / how.factor;
      }
      ASSERT_NO_FATAL_FAILURE(ExpectIntegerBounds(query, row));
    }
  }
}

// Every element lies half way between two integers, and all low parts of the row and the query are
// as large as they get: the errors that the bound allows for are all there.
TEST(IntegerBoundTest, TheLargestErrorsStayBelowTheBound) {
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    const auto count = static_cast<size_t>(dimension);
    const double norm = std::sqrt(static_cast<double>(dimension));
    const double step = norm / 32'500.0;
    for (const double sign : {-1.0, 1.0}) {
      for (const double low : {-128.5, -127.5, 127.5, 128.5}) {
        Vector row(count, static_cast<float>((256.0 * std::rint(1.0 / step / 256.0) + low) * step));
        Vector query(count, static_cast<float>(sign));
        query[0] = static_cast<float>(sign * 127.0 / 126.5);
        ASSERT_NO_FATAL_FAILURE(ExpectIntegerBounds(query, row));
        ASSERT_NO_FATAL_FAILURE(ExpectIntegerBounds(row, query));
      }
    }
  }
}

// Rounding loses nearly half a step of each element but the first, in the direction of the query.
// The first element is so large that the others hardly change the step.
TEST(IntegerBoundTest, HalfAStepInEveryElementStaysBelowTheBound) {
  for (const int64_t dimension : kDimensions) {
    SCOPED_TRACE(dimension);
    Vector row(static_cast<size_t>(dimension), 10.49f / 32'500.0f);
    row[0] = 1.0f;
    for (const double sign : {-1.0, 1.0}) {
      Vector query(row.size(), static_cast<float>(sign));
      for (float& value : row) value = std::copysign(value, static_cast<float>(sign));
      ASSERT_NO_FATAL_FAILURE(ExpectIntegerBounds(query, row));
    }
  }
}

// The bound is useful: within a fifth of a percent of the largest score, for rows without extremes.
TEST(IntegerBoundTest, IsCloseToTheScore) {
  Random random(TestSeed());
  for (const int64_t dimension : {64, 384, 1024}) {
    const Vector row = AnyVector(random, dimension, Kind::kGaussian);
    const Vector query = AnyVector(random, dimension, Kind::kGaussian);
    const double norms = std::sqrt(Canonical(row, row, false) * Canonical(query, query, false));
    const double score = CanonicalScore(Metric::kDot, query, row);
    EXPECT_LE(Upper(MakeQuery(Metric::kDot, query), MakeRow(Metric::kDot, row)) - score,
              0.002 * norms)
        << dimension;
  }
}

// The largest product of 8,192 dimensions fits in int32.
TEST(IntegerBoundTest, ProductsFitInTheirSums) {
  const Vector equal(8192, 1.0f);
  const Vector signs = [] {
    Vector vector(8192);
    for (size_t i = 0; i < vector.size(); ++i) vector[i] = i % 2 == 0 ? 1.0f : -1.0f;
    return vector;
  }();
  for (const Vector& vector : {equal, signs}) {
    ASSERT_NO_FATAL_FAILURE(ExpectIntegerBounds(vector, vector));
  }
}

TEST(IntegerBoundTest, RowsWithoutUsableNormKeepTheirPlace) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(MakeIntegerRow(Metric::kCosine, 0.0, 3).bound.residual, -infinity)
      << "a zero row scores -inf";
  EXPECT_EQ(MakeIntegerRow(Metric::kCosine, 0x1p-290, 3).bound.residual, infinity);
  EXPECT_EQ(MakeIntegerRow(Metric::kDot, 0x1p130, 3).bound.residual, infinity);
  EXPECT_EQ(MakeIntegerRow(Metric::kDot, 0.0, 3).bound.residual, 0.0f);
  EXPECT_GE(MakeIntegerRow(Metric::kDot, 0x1p-280, 3).bound.residual, 0x1p-140f);
}

}  // namespace
}  // namespace nearfield::bound
