// The certified bound: an upper bound of a canonical score, computed from codes in plain fp32, on
// the host and on the device. The derivation is in engine/DESIGN.md, "Certified bound".
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/score/host_device.h"
#include "engine/score/score.h"

namespace nearfield::bound {

// Bound of a row's code c, int8 in the rotated space. 16 bytes: one load. A row may have a second
// code, of what the first leaves; the bound of both has the scale of the second code, the residual
// of both, and the sum of the norms of both.
struct alignas(16) RowBound {
  float scale = 0;     // s: the code represents s * c
  float residual = 0;  // r >= the norm of the row minus its code; +inf: nothing is known, -inf: the
                       // score is -inf
  float norm = 0;      // m >= the norm of s * c
  float squared_norm_lower = 0;  // n: for L2, at most S(x, x); else 0
};

// Bound of a query's codes c1 and c2. t1 * c1 + t2 * c2 approximates the query; for L2, twice the
// query.
struct QueryBound {
  float first_scale = 0;         // t1
  float second_scale = 0;        // t2
  float of_residual = 0;         // A
  float of_norm = 0;             // B
  float squared_norm_lower = 0;  // h: for L2, at most S(q, q); else 0
};

// For a row or a query with a larger norm nothing is claimed, so that no product of codes
// overflows.
inline constexpr double kCodeNormMax = 0x1p60;

// A squared_norm_lower times this is at least the squared norm, if the norm is at most kNormMax.
inline constexpr float kSquaredNormUp = 1.0f + 0x1p-18f;
inline constexpr float kNormMax = 0x1p62f;

// fp32 operations, each rounded separately (never fused).
NEARFIELD_HOST_DEVICE inline float Times(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
NEARFIELD_HOST_DEVICE inline float Plus(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

// Conversions that round up, or down.
NEARFIELD_HOST_DEVICE inline float UpToFloat(double value) {
#ifdef __CUDA_ARCH__
  return __double2float_ru(value);
#else
  const auto nearest = static_cast<float>(value);
  return static_cast<double>(nearest) >= value ? nearest : std::nextafterf(nearest, INFINITY);
#endif
}
NEARFIELD_HOST_DEVICE inline float DownToFloat(double value) { return -UpToFloat(-value); }

// Returns u >= the canonical score (rounding to fp32 preserves the order). product: t1 <c1, c> + t2
// <c2, c>, from exact products of codes. Returns NaN or +inf if nothing is known. A row is dropped
// only if u < threshold, which is false for both.
NEARFIELD_HOST_DEVICE inline float UpperScore(const RowBound& row, const QueryBound& query,
                                              float product) {
  const float slack = Plus(Times(query.of_residual, row.residual), Times(query.of_norm, row.norm));
  const float dot = Plus(Times(row.scale, product), slack);
  return Plus(Plus(dot, -row.squared_norm_lower), Plus(0x1p-140f, -query.squared_norm_lower));
}

// Bounds of a canonical score. -inf and +inf: nothing is known.
struct ScoreRange {
  float lower = score::MinusInfinity();
  float upper = -score::MinusInfinity();
};

// Returns bounds of the canonical score from both codes of a row. first, both: the bound of its
// first code, and that of both. first_product, second_product: as for UpperScore, of each code.
NEARFIELD_HOST_DEVICE inline ScoreRange RangeOfScore(const RowBound& first, const RowBound& both,
                                                     const QueryBound& query, float first_product,
                                                     float second_product) {
  const float slack =
      Plus(Times(query.of_residual, both.residual), Times(query.of_norm, both.norm));
  const float product = Plus(Times(first.scale, first_product), Times(both.scale, second_product));
  ScoreRange range;
  range.upper = Plus(Plus(Plus(product, slack), -both.squared_norm_lower),
                     Plus(0x1p-140f, -query.squared_norm_lower));
  // Without a usable code the residual is infinite, or -inf for a score of -inf.
  if (both.residual >= 0.0f && both.residual <= kNormMax && query.of_residual <= kNormMax) {
    const float row_squared = Times(both.squared_norm_lower, kSquaredNormUp);
    const float query_squared = Times(query.squared_norm_lower, kSquaredNormUp);
    range.lower = Plus(Plus(Plus(product, -slack), -row_squared), Plus(-0x1p-140f, -query_squared));
  }
  return range;
}

NEARFIELD_HOST_DEVICE inline float CodeProduct(const QueryBound& query, int32_t first,
                                               int32_t second) {
  return Plus(Times(query.first_scale, static_cast<float>(first)),
              Times(query.second_scale, static_cast<float>(second)));
}
// The product of the first code alone.
NEARFIELD_HOST_DEVICE inline float CodeProduct(const QueryBound& query, int32_t first) {
  return Times(query.first_scale, static_cast<float>(first));
}

// Returns an upper bound of the relative error of the norms that a bound is computed from, and of
// all values derived from them. The norms are sums of `dimension` squares in fp64, in any order.
NEARFIELD_HOST_DEVICE inline double NormError(int64_t dimension) {
  return (3.0 * static_cast<double>(dimension) + 64.0) * 0x1p-53;
}

// Returns an upper bound of the norm of `dimension` values, from the sum of their squares in fp64.
// Squares of tiny values may underflow; each loses less than 2^-1074.
NEARFIELD_HOST_DEVICE inline double NormUp(double squares, int64_t dimension) {
  const auto terms = static_cast<double>(dimension);
  return (std::sqrt(squares) + std::sqrt(terms) * 0x1p-536) * (1.0 + NormError(dimension));
}

inline constexpr double kCodeMax = 127.0;
// Returns the scale of codes for values of at most this magnitude: 0 if it is too small for a
// scale, +inf if it is too large. code_max: the largest code.
NEARFIELD_HOST_DEVICE inline float CodeScale(double magnitude, double code_max = kCodeMax) {
  return static_cast<float>(magnitude / code_max);
}
// Returns the integer nearest to value * inverse, where `inverse` is the inverse of the scale, at
// most code_max. Adding and subtracting 1.5 * 2^52 rounds it.
NEARFIELD_HOST_DEVICE inline double CodeOf(double value, double inverse,
                                           double code_max = kCodeMax) {
  const double product = value * inverse;
  const double clamped =
      product > code_max ? code_max : (product < -code_max ? -code_max : product);
  return (clamped + 0x1.8p52) - 0x1.8p52;
}

// Returns an upper bound of the norm of scale * codes, from the exact sum of the codes' squares.
NEARFIELD_HOST_DEVICE inline double CodeNormUp(float scale, int64_t squares) {
  return static_cast<double>(scale) * std::sqrt(static_cast<double>(squares)) *
         (1.0 + 8.0 * 0x1p-53);
}

// Returns `squared`, an S(x, x) or S(q, q) (S: score.h), lowered by more than the rounding error of
// the sums of a bound.
NEARFIELD_HOST_DEVICE inline float SquaredNormLower(double squared) {
  const double squared_norm_lower = squared * (1.0 - 0x1p-19);
  return squared_norm_lower > 0x1p127 ? 0x1p127f : DownToFloat(squared_norm_lower);
}

// Returns the bound of a row's code, or of both its codes. scale: of the last code.
// residual_squares: the sum of squares of x - Rq^T x', with each difference rounded once; x' is s
// c, or the sum of both, rounded once. code_norm: CodeNormUp, or the sum of both. rotation_error:
// Rotation::RelativeError(). row_squared: S(x, x) for L2, else 0.
NEARFIELD_HOST_DEVICE inline RowBound MakeRowBound(float scale, double residual_squares,
                                                   double code_norm, double rotation_error,
                                                   double row_squared, int64_t dimension) {
  RowBound bound;
  const double residual = NormUp(residual_squares, dimension) * (1.0 + 4.0 * 0x1p-53) +
                          (rotation_error + 0x1p-52) * code_norm;
  bound.squared_norm_lower = SquaredNormLower(row_squared);
  if (!(code_norm <= kCodeNormMax)) {
    bound.residual = score::FloatFromBits(0x7f800000u);
    return bound;
  }
  bound.scale = scale;
  bound.residual = UpToFloat(residual);
  bound.norm = UpToFloat(code_norm * (1.0 + 0x1p-52));
  return bound;
}

// Norms for the bound of a query, rounded up: of the query, of the rotated query minus the first
// code, and of the rotated query minus all codes. Rq does not increase the norm of a vector.
struct QueryNorms {
  double query = 0;
  double without_first = 0;
  double rest = 0;
};

// query_squared: S(q, q); read for L2 only.
NEARFIELD_HOST_DEVICE inline QueryBound MakeQueryBound(float first_scale, float second_scale,
                                                       const QueryNorms& norms,
                                                       double rotation_error, bool l2,
                                                       double query_squared, int64_t dimension) {
  // At least |t1 c1| + |t2 c2|.
  const double codes = 2.0 * (norms.query + norms.without_first + norms.rest);
  const double error = NormError(dimension);
  // Subtracting codes rounds each value twice, by 2^-53 of its magnitude.
  const double rest = norms.rest + rotation_error * norms.query + 4.0 * 0x1p-53 * codes;
  const bool usable = codes <= kCodeNormMax;
  const double infinity = static_cast<double>(score::FloatFromBits(0x7f800000u));
  // L2 subtracts the distance from twice the product.
  const double factor = l2 ? 2.0 : 1.0;
  QueryBound bound;
  bound.first_scale = usable ? static_cast<float>(factor) * first_scale : 0.0f;
  bound.second_scale = usable ? static_cast<float>(factor) * second_scale : 0.0f;
  bound.of_residual =
      UpToFloat(usable ? factor * norms.query * (1.0 + error) * (1.0 + 0x1p-20) : infinity);
  bound.of_norm = UpToFloat(usable ? factor * (rest + 0x1p-20 * codes + 2.0 * error * norms.query) *
                                         (1.0 + 0x1p-20)
                                   : infinity);
  bound.squared_norm_lower = l2 ? SquaredNormLower(query_squared) : 0.0f;
  return bound;
}

}  // namespace nearfield::bound
