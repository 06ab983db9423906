// Random vectors for tests of bounds, and the canonical scores (score.h): no bound may be below
// them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/score/score.h"
#include "nearfield/engine/types.h"
#include "tests/engine/prelude.h"

namespace nearfield::bound {

using Vector = std::vector<float>;

inline double Canonical(const Vector& query, const Vector& row, bool l2) {
  std::array<double, score::kAccumulators> sums{};
  for (size_t d = 0; d < row.size(); ++d) {
    double& sum = sums[d % sums.size()];
    sum = l2 ? score::L2Step(query[d], row[d], sum) : score::DotStep(query[d], row[d], sum);
  }
  return score::ReduceAccumulators(sums.data());
}

inline float CanonicalScore(Metric metric, const Vector& query, const Vector& row) {
  const double s = Canonical(query, row, metric == Metric::kL2);
  switch (metric) {
    case Metric::kDot: return score::DotScore(s);
    case Metric::kCosine:
      return score::CosineScore(s, Canonical(query, query, false), Canonical(row, row, false));
    case Metric::kL2: break;
  }
  return score::L2Score(s);
}

inline bool IsZero(const Vector& vector) {
  return std::all_of(vector.begin(), vector.end(), [](float value) { return value == 0.0f; });
}

enum class Kind { kGaussian, kOutliers, kSparse, kConstant, kSmall, kLarge, kWild };
inline constexpr std::array kKinds = {Kind::kGaussian, Kind::kOutliers, Kind::kSparse,
                                      Kind::kConstant, Kind::kSmall,    Kind::kLarge,
                                      Kind::kWild};

inline Vector AnyVector(Random& random, int64_t dimension, Kind kind) {
  Vector vector(static_cast<size_t>(dimension));
  const float constant = random.Gaussian();
  for (float& value : vector) {
    value = random.Gaussian();
    switch (kind) {
      case Kind::kGaussian: break;
      case Kind::kOutliers:
        if (random.OneIn(50)) value *= 1000.0f;
        break;
      case Kind::kSparse:
        if (!random.OneIn(20)) value = 0.0f;
        break;
      case Kind::kConstant: value = constant; break;
      case Kind::kSmall: value = std::ldexp(value, -140); break;
      case Kind::kLarge: value = std::ldexp(value, 120); break;
      case Kind::kWild:
        value = std::ldexp(value, static_cast<int>(random.Between(-145, 124)));
        break;
    }
  }
  return vector;
}

inline constexpr std::array<int64_t, 13> kDimensions = {1,   2,   3,   5,    8,    31,  64,
                                                        100, 384, 768, 1000, 1024, 1536};

// Calls check(query, row) for rows and queries of all kinds and dimensions, until one call fails
// fatally.
template <typename Check>
void ForEachPair(Random& random, const Check& check) {
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
          ASSERT_NO_FATAL_FAILURE(check(query, row));
        }
      }
    }
  }
}

}  // namespace nearfield::bound
