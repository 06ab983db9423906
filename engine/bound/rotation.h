// The rotation that a scan copy's codes are made in: it spreads a few great dimensions over all.
//
// R = H on [D-p, D), after random signs, after H on [0, p), after random signs, where p is the
// largest power of two not beyond D and H the Hadamard matrix, unnormalised. Rows are scaled by
// 2^-b in each round, queries by 2^-a, a + b = log2 p, so that Rq^T Rr is the identity: all factors
// are powers of two, and only the additions round. Source: the fast Johnson-Lindenstrauss transform
// (Ailon, Chazelle, STOC 2006); two overlapping rounds instead of padding to a power of two.
#ifndef NEARFIELD_ENGINE_BOUND_ROTATION_H_
#define NEARFIELD_ENGINE_BOUND_ROTATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/bound/rotation_shape.h"

namespace nearfield::corpus {

class Rotation {
 public:
  // dimension >= 1. The same seed gives the same rotation everywhere.
  Rotation(int64_t dimension, uint64_t seed);

  int64_t dimension() const { return shape_.dimension; }

  // In place; [dimension].
  void RotateRow(absl::Span<double> row) const;               // Rr x
  void RotateQuery(absl::Span<double> query) const;           // Rq q
  void BringBackWithQuery(absl::Span<double> rotated) const;  // Rq^T y

  // The parts, for those who compute it with other instructions: signs of 1 or -1, the size of H,
  // and the shifts b and a.
  int64_t block() const { return shape_.block; }
  int row_shift() const { return shape_.row_shift; }
  int query_shift() const { return shape_.query_shift; }
  absl::Span<const double> first_signs() const { return first_signs_; }
  absl::Span<const double> second_signs() const { return second_signs_; }

  // The computed Rr x, Rq q or Rq^T y differs from the exact by at most this times the norm of what
  // was rotated.
  double RelativeError() const;

 private:
  void Forward(absl::Span<double> values, int shift) const;
  // H, scaled by 2^-shift.
  void Hadamard(absl::Span<double> block, int shift) const;

  score::RotationShape shape_;
  std::vector<double> first_signs_;
  std::vector<double> second_signs_;
};

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_BOUND_ROTATION_H_
