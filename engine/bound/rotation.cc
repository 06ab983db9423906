#include "engine/bound/rotation.h"

#include <cmath>
#include <cstddef>

namespace nearfield::bound {
namespace {

std::vector<double> Signs(const RotationShape& shape, int round) {
  std::vector<double> signs(static_cast<size_t>(shape.dimension));
  for (size_t i = 0; i < signs.size(); ++i) {
    signs[i] = RotationFlips(shape, round, static_cast<int32_t>(i)) ? -1.0 : 1.0;
  }
  return signs;
}

void Apply(const std::vector<double>& signs, absl::Span<double> values) {
  for (size_t i = 0; i < values.size(); ++i) values[i] *= signs[i];
}

}  // namespace

Rotation::Rotation(int64_t dimension, uint64_t seed)
    : shape_(RotationShapeOf(static_cast<int32_t>(dimension), seed)),
      first_signs_(Signs(shape_, 0)),
      second_signs_(Signs(shape_, 1)) {}

namespace {

// Computes the butterflies of two levels in one pass: of elements half and 2 * half apart.
void TwoLevels(double* block, size_t size, size_t half) {
  for (size_t begin = 0; begin < size; begin += 4 * half) {
    double* const a = block + begin;
    double* const b = a + half;
    double* const c = b + half;
    double* const d = c + half;
    for (size_t i = 0; i < half; ++i) {
      const double ab = a[i] + b[i];
      const double a_b = a[i] - b[i];
      const double cd = c[i] + d[i];
      const double c_d = c[i] - d[i];
      a[i] = ab + cd;
      b[i] = a_b + c_d;
      c[i] = ab - cd;
      d[i] = a_b - c_d;
    }
  }
}

void OneLevel(double* block, size_t size, size_t half) {
  for (size_t begin = 0; begin < size; begin += 2 * half) {
    for (size_t i = begin; i < begin + half; ++i) {
      const double a = block[i];
      const double b = block[i + half];
      block[i] = a + b;
      block[i + half] = a - b;
    }
  }
}

}  // namespace

void Rotation::Hadamard(absl::Span<double> block, int shift) const {
  const size_t size = block.size();
  size_t half = 1;
  for (; 4 * half <= size; half *= 4) TwoLevels(block.data(), size, half);
  if (2 * half <= size) OneLevel(block.data(), size, half);
  const double scale = std::ldexp(1.0, -shift);
  for (double& value : block) value *= scale;
}

void Rotation::Forward(absl::Span<double> values, int shift) const {
  const auto block = static_cast<size_t>(shape_.block);
  Apply(first_signs_, values);
  Hadamard(values.subspan(0, block), shift);
  Apply(second_signs_, values);
  Hadamard(values.subspan(values.size() - block), shift);
}

void Rotation::RotateRow(absl::Span<double> row) const { Forward(row, shape_.row_shift); }
void Rotation::RotateQuery(absl::Span<double> query) const { Forward(query, shape_.query_shift); }

void Rotation::BringBackWithQuery(absl::Span<double> rotated) const {
  const auto block = static_cast<size_t>(shape_.block);
  Hadamard(rotated.subspan(rotated.size() - block), shape_.query_shift);
  Apply(second_signs_, rotated);
  Hadamard(rotated.subspan(0, block), shape_.query_shift);
  Apply(first_signs_, rotated);
}

double Rotation::RelativeError() const { return RotationError(shape_); }

}  // namespace nearfield::bound
