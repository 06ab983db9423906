// The rotation that a scan copy's codes are made in: it spreads a few great dimensions over all.
//
// R = H on [D-p, D), after random signs, after H on [0, p), after random signs, where p is the
// largest power of two not beyond D and H the Hadamard matrix, unnormalised. Rows are scaled by
// 2^-b in each round, queries by 2^-a, a + b = log2 p, so that Rq^T Rr is the identity: all factors
// are powers of two, and only the additions round. Source: the fast Johnson-Lindenstrauss transform
// (Ailon, Chazelle, STOC 2006); two overlapping rounds instead of padding to a power of two.
#ifndef NEARFIELD_ENGINE_CORPUS_ROTATION_H_
#define NEARFIELD_ENGINE_CORPUS_ROTATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::corpus {

class Rotation {
 public:
  // dimension >= 1. The same seed gives the same rotation everywhere.
  Rotation(int64_t dimension, uint64_t seed);

  int64_t dimension() const { return dimension_; }

  // In place; [dimension].
  void RotateRow(absl::Span<double> row) const;               // Rr x
  void RotateQuery(absl::Span<double> query) const;           // Rq q
  void BringBackWithQuery(absl::Span<double> rotated) const;  // Rq^T y

  // The computed Rr x, Rq q or Rq^T y differs from the exact by at most this times the norm of what
  // was rotated.
  double RelativeError() const;

 private:
  void Forward(absl::Span<double> values, int shift) const;
  // H, scaled by 2^-shift.
  void Hadamard(absl::Span<double> block, int shift) const;

  int64_t dimension_;
  int64_t block_;  // p
  int log2_block_;
  int row_shift_;    // b
  int query_shift_;  // a
  std::vector<double> first_signs_;
  std::vector<double> second_signs_;
};

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_ROTATION_H_
