// What a scan of a bf16 copy proves about a canonical score: the numbers that UpperScore
// (certified_bound.h) takes, of a row's copy and of the fp32 query that it is multiplied with. Host
// and device. The derivation is in engine/DESIGN.md, "Bound of a bf16 copy".
#ifndef NEARFIELD_ENGINE_SCORE_BF16_BOUND_H_
#define NEARFIELD_ENGINE_SCORE_BF16_BOUND_H_

#include <cstdint>

#include "engine/score/certified_bound.h"
#include "engine/score/host_device.h"
#include "engine/score/score.h"

namespace nearfield::score {

// An element of a copy: to nearest even. 0 where that is denormal, so that nothing depends on what
// a multiplier makes of those, and where it is beyond the range of bf16: of such a row, whose norm
// is as great, nothing is claimed.
NEARFIELD_HOST_DEVICE inline uint16_t Bf16CopyBits(float value) {
  const uint32_t bits = BitsFromFloat(value);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const uint32_t magnitude = rounded & 0x7fffffffu;
  const bool normal = magnitude >= 0x00800000u && magnitude < 0x7f800000u;
  return normal ? static_cast<uint16_t>(rounded >> 16) : uint16_t{0};
}

// What the sum of the products of `dimension` elements errs by, relatively to the norms multiplied:
// fp32, in any order, products rounded or fused.
NEARFIELD_HOST_DEVICE inline double Bf16SumError(int64_t dimension) {
  return (static_cast<double>(dimension) + 8.0) * 0x1p-23;
}
// On tensor cores, of two bf16 factors: an assumption about the hardware, which tests hold against
// it with rows whose products cancel.
NEARFIELD_HOST_DEVICE inline double Bf16TensorError(int64_t dimension) {
  return (static_cast<double>(dimension) + 16.0) * 0x1p-22;
}

// More than all that products and sums below the least normal number may lose, even where they are
// flushed to 0.
inline constexpr double kBf16Underflow = 0x1p-110;

// residual_squares: the sum of squares of x - x', each difference rounded once; copy_squares: that
// of x'. row_squared: S(x, x) for L2, else 0.
NEARFIELD_HOST_DEVICE inline RowBound MakeBf16RowBound(double residual_squares, double copy_squares,
                                                       double row_squared, int64_t dimension) {
  const double residual = NormUp(residual_squares, dimension) * (1.0 + 4.0 * 0x1p-53);
  const double norm = NormUp(copy_squares, dimension);
  RowBound bound;
  bound.less = LessOf(row_squared);
  if (!(norm <= kCodeNormMax && residual <= kCodeNormMax)) {
    bound.residual = FloatFromBits(0x7f800000u);
    return bound;
  }
  bound.scale = 1.0f;
  bound.residual = UpToFloat(residual);
  bound.norm = UpToFloat(norm);
  return bound;
}

struct Bf16QueryNorms {
  double query = 0;      // at least that of the query
  double rest = 0;       // at least that of what the query multiplied with leaves out of it
  double sum_error = 0;  // Bf16SumError or Bf16TensorError
};

// The product that UpperScore takes is first_scale times the sum. query_squared: S(q, q); read for
// L2 only.
NEARFIELD_HOST_DEVICE inline QueryBound MakeBf16QueryBound(const Bf16QueryNorms& norms, bool l2,
                                                           double query_squared,
                                                           int64_t dimension) {
  const double multiplied = norms.query + norms.rest;
  const double error = NormError(dimension);
  const bool usable = multiplied <= kCodeNormMax;
  const double infinity = static_cast<double>(FloatFromBits(0x7f800000u));
  // The distance is taken off from twice the product.
  const double factor = l2 ? 2.0 : 1.0;
  const double of_norm = norms.rest * (1.0 + 4.0 * 0x1p-53) +
                         (norms.sum_error + 0x1p-20) * multiplied + 2.0 * error * norms.query;
  QueryBound bound;
  bound.first_scale = usable ? static_cast<float>(factor) : 0.0f;
  bound.of_residual =
      UpToFloat(usable ? factor * norms.query * (1.0 + error) * (1.0 + 0x1p-20) : infinity);
  bound.of_norm = UpToFloat(usable ? factor * of_norm * (1.0 + 0x1p-20) : infinity);
  const double less = l2 ? static_cast<double>(LessOf(query_squared)) : 0.0;
  bound.less = DownToFloat(less - kBf16Underflow);
  return bound;
}

}  // namespace nearfield::score

#endif  // NEARFIELD_ENGINE_SCORE_BF16_BOUND_H_
