// The certified bound of an exact row without a stored code: its elements are rounded to 16-bit
// integers when they are read, and multiplied with a query of 16-bit integers. Host and device. The
// derivation is in engine/DESIGN.md, "Rows as integers".
//
// An integer v is 256 h + l with h and l in int8, so that int8 products on the tensor cores, which
// are exact, give
//     S = 256 <h_q, h> + <h_q, l> + <l_q, h>.
// UpperScore (certified_bound.h) turns it into a bound. <l_q, l> is left out; the bound covers it.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/score/host_device.h"
#include "nearfield/engine/types.h"

namespace nearfield::bound {

// Largest magnitude of an integer: a little less than 127 * 256, so that h fits in int8.
inline constexpr double kIntegerMax = 32500.0;
// A row with a smaller norm is replaced by zeros.
inline constexpr double kIntegerNormMin = 0x1p-100;

// The high and low part of an integer v: v = 256 high + low.
struct IntegerParts {
  int32_t high = 0;
  int32_t low = 0;
};
NEARFIELD_HOST_DEVICE inline IntegerParts PartsOf(int32_t v) {
  const int32_t high = (v + 128) >> 8;
  return {high, v - 256 * high};
}

// How a row becomes integers, and the bound of these.
struct IntegerRow {
  float factor = 0;  // element x becomes the integer nearest to x * factor, in exact arithmetic
  RowBound bound;
};

// squared: S(x, x).
NEARFIELD_HOST_DEVICE inline IntegerRow MakeIntegerRow(Metric metric, double squared,
                                                       int64_t dimension) {
  const float infinity = score::FloatFromBits(0x7f800000u);
  const bool cosine = metric == Metric::kCosine;
  const double norm = std::sqrt(squared) * (1.0 + NormError(dimension));
  IntegerRow row;
  if (metric == Metric::kL2) row.bound.squared_norm_lower = SquaredNormLower(squared);
  if (!(norm >= kIntegerNormMin)) {
    const float unknown = squared == 0.0 ? -infinity : infinity;
    row.bound.residual = cosine ? unknown : UpToFloat(norm);
    return row;
  }
  if (!cosine && !(norm <= kCodeNormMax)) {
    row.bound.residual = infinity;
    return row;
  }
  row.factor = DownToFloat(kIntegerMax / norm * (1.0 - 0x1p-50));
  // One step of the integers, in the space in which rows are compared: that of x, or of x / |x|.
  const double step = 1.0 / (static_cast<double>(row.factor) * (cosine ? norm : 1.0));
  const double residual = 0.5 * std::sqrt(static_cast<double>(dimension)) * step * (1.0 + 0x1p-20);
  row.bound.scale = static_cast<float>(step);
  row.bound.residual = UpToFloat(residual);
  row.bound.norm = UpToFloat((cosine ? 1.0 : norm) * (1.0 + 0x1p-20) + residual);
  return row;
}

// Norms for the bound of a query, rounded up: of the query (for cosine, of its quotient by its
// norm), of t times its low parts, and of the query minus t times its integers.
struct IntegerNorms {
  double query = 0;
  double low = 0;
  double rest = 0;
};

// Returns the bound of a query for UpperScore with the product first_scale * S. squared: S(q, q);
// read for L2 only.
NEARFIELD_HOST_DEVICE inline QueryBound MakeIntegerQueryBound(Metric metric, float scale,
                                                              const IntegerNorms& norms,
                                                              double squared, int64_t dimension) {
  // <l_q, l> is at most |l_q| times 256 residuals of the row.
  const QueryNorms with_low = {
      .query = norms.query + 256.0 * norms.low, .without_first = norms.low, .rest = norms.rest};
  return MakeQueryBound(256.0f * scale, 0.0f, with_low, 0.0, metric == Metric::kL2, squared,
                        dimension);
}

}  // namespace nearfield::bound
