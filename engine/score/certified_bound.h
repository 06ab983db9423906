// What a scan of codes proves about a canonical score: an upper bound, in plain fp32, on the host
// and on the device. The derivation is in engine/DESIGN.md, "Certified bound".
#ifndef NEARFIELD_ENGINE_SCORE_CERTIFIED_BOUND_H_
#define NEARFIELD_ENGINE_SCORE_CERTIFIED_BOUND_H_

#include <cmath>
#include <cstdint>

#include "engine/score/host_device.h"

namespace nearfield::score {

// Of a row's code c, int8 in the rotated space.
struct RowBound {
  float scale = 0;  // s: the code stands for s * c
  float residual =
      0;           // r >= the norm of what the code leaves out of the row; +inf: nothing is known
  float norm = 0;  // m >= the norm of s * c
};

// Of a query's codes c1 and c2.
struct QueryBound {
  float first_scale = 0;   // t1
  float second_scale = 0;  // t2: the codes stand for t1 * c1 + t2 * c2
  float of_residual = 0;   // A
  float of_norm = 0;       // B
};

// fp32, each step rounded by itself.
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

// s~: the product that the codes stand for. first, second: <c1, c> and <c2, c>, exact.
NEARFIELD_HOST_DEVICE inline float CodeProduct(const RowBound& row, const QueryBound& query,
                                               int32_t first, int32_t second) {
  const float of_first = Times(query.first_scale, static_cast<float>(first));
  const float of_second = Times(query.second_scale, static_cast<float>(second));
  return Times(row.scale, Plus(of_first, of_second));
}

// u >= S, the canonical dot product, and so >= its score: rounding to fp32 keeps the order. NaN or
// +inf where nothing is known; a row is dropped only by a comparison that those do not pass.
NEARFIELD_HOST_DEVICE inline float UpperDot(const RowBound& row, const QueryBound& query,
                                            float code_product) {
  const float slack = Plus(Times(query.of_residual, row.residual), Times(query.of_norm, row.norm));
  return Plus(Plus(code_product, slack), 0x1p-140f);
}

// Rounded up.
inline float UpToFloat(double value) {
  const auto nearest = static_cast<float>(value);
  return static_cast<double>(nearest) >= value ? nearest : std::nextafterf(nearest, INFINITY);
}

// Of a row whose S(x, x) is row_squared, from u. S(q, q) = query_squared > 0.
inline float UpperCosine(float upper_dot, double query_squared, double row_squared) {
  if (row_squared == 0.0) return -INFINITY;
  const double cosine =
      static_cast<double>(upper_dot) / (std::sqrt(query_squared) * std::sqrt(row_squared));
  return UpToFloat(cosine + 8 * 0x1p-53 * std::fabs(cosine));
}

// Of the squared distance negated, from u.
inline float UpperL2(float upper_dot, double query_squared, double row_squared, int64_t dimension) {
  const double twice = 2.0 * static_cast<double>(upper_dot);
  const double slack = 4.0 * static_cast<double>(dimension + 8) * 0x1p-53 *
                       (query_squared + row_squared + std::fabs(twice));
  return UpToFloat(-(query_squared + row_squared - twice) + slack);
}

}  // namespace nearfield::score

#endif  // NEARFIELD_ENGINE_SCORE_CERTIFIED_BOUND_H_
