// Rotation: the rotation that is applied before rows and queries are encoded. It spreads a few
// large dimensions over all.
//
// R applies random signs, H on [0, p), random signs, and H on [D-p, D), in this order. p is the
// largest power of two that is at most D, and H the unnormalized Hadamard matrix. Each round scales
// rows by 2^-b and queries by 2^-a with a + b = log2 p, so that Rq^T Rr is the identity. All
// factors are powers of two, so only the additions round. Source: the fast Johnson-Lindenstrauss
// transform (Ailon, Chazelle, STOC 2006), with two overlapping rounds instead of padding to a power
// of two.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/bound/rotation_shape.h"

namespace nearfield::bound {

class Rotation {
 public:
  // Requires: dimension >= 1. The same seed gives the same rotation on every machine.
  Rotation(int64_t dimension, uint64_t seed);

  int64_t dimension() const { return shape_.dimension; }

  // Transform [dimension] values in place.
  void RotateRow(absl::Span<double> row) const;               // Rr x
  void RotateQuery(absl::Span<double> query) const;           // Rq q
  void BringBackWithQuery(absl::Span<double> rotated) const;  // Rq^T y

  // The parts of the rotation, for implementations with other instructions: the size of H, the
  // shifts b and a, and the signs, 1 or -1.
  int64_t block() const { return shape_.block; }
  int row_shift() const { return shape_.row_shift; }
  int query_shift() const { return shape_.query_shift; }
  absl::Span<const double> first_signs() const { return first_signs_; }
  absl::Span<const double> second_signs() const { return second_signs_; }

  // Returns a bound on the relative error: a computed Rr x, Rq q or Rq^T y differs from the exact
  // result by at most this times the norm of the argument.
  double RelativeError() const;

 private:
  void Forward(absl::Span<double> values, int shift) const;
  // Applies H, scaled by 2^-shift.
  void Hadamard(absl::Span<double> block, int shift) const;

  RotationShape shape_;
  std::vector<double> first_signs_;
  std::vector<double> second_signs_;
};

}  // namespace nearfield::bound
