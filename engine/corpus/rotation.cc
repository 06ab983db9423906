#include "engine/corpus/rotation.h"

#include <bit>
#include <cmath>
#include <cstddef>

#include "engine/base/scramble.h"

namespace nearfield::corpus {
namespace {

std::vector<double> Signs(int64_t dimension, uint64_t seed) {
  std::vector<double> signs(static_cast<size_t>(dimension));
  for (size_t i = 0; i < signs.size(); ++i) {
    signs[i] = (Scramble(seed + (i + 1) * 0x9e3779b97f4a7c15u) >> 63) != 0 ? -1.0 : 1.0;
  }
  return signs;
}

void Apply(const std::vector<double>& signs, absl::Span<double> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] *= signs[i];
}

}  // namespace

Rotation::Rotation(int64_t dimension, uint64_t seed)
    : dimension_(dimension),
      block_(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(dimension)))),
      log2_block_(std::countr_zero(static_cast<uint64_t>(block_))),
      row_shift_(log2_block_ / 2),
      query_shift_(log2_block_ - row_shift_),
      first_signs_(Signs(dimension, Scramble(seed))),
      second_signs_(Signs(dimension, Scramble(~seed))) {}

void Rotation::Hadamard(absl::Span<double> block, int shift) const {
  const size_t size = block.size();
  for (size_t half = 1; half < size; half *= 2) {
    for (size_t begin = 0; begin < size; begin += 2 * half) {
      for (size_t i = begin; i < begin + half; ++i) {
        const double a = block[i];
        const double b = block[i + half];
        block[i] = a + b;
        block[i + half] = a - b;
      }
    }
  }
  const double scale = std::ldexp(1.0, -shift);
  for (double& value : block) value *= scale;
}

void Rotation::Forward(absl::Span<double> values, int shift) const {
  const auto block = static_cast<size_t>(block_);
  Apply(first_signs_, values);
  Hadamard(values.subspan(0, block), shift);
  Apply(second_signs_, values);
  Hadamard(values.subspan(values.size() - block), shift);
}

void Rotation::RotateRow(absl::Span<double> row) const { Forward(row, row_shift_); }
void Rotation::RotateQuery(absl::Span<double> query) const { Forward(query, query_shift_); }

void Rotation::BringBackWithQuery(absl::Span<double> rotated) const {
  const auto block = static_cast<size_t>(block_);
  Hadamard(rotated.subspan(rotated.size() - block), query_shift_);
  Apply(second_signs_, rotated);
  Hadamard(rotated.subspan(0, block), query_shift_);
  Apply(first_signs_, rotated);
}

double Rotation::RelativeError() const {
  // Each of the 2 log2 p levels rounds once an element: by 2^-53 of the norm it leaves. A round's
  // norm is 2^(log2 p / 2 - shift) <= sqrt(2) on its block and 1 beside it, so no norm on the way
  // is more than twice the first. Twice that again for the rounding of the rounding.
  return 8.0 * log2_block_ * 0x1p-53;
}

}  // namespace nearfield::corpus
