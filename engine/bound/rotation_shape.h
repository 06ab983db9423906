// Parameters of the rotation in which codes are computed, for the host and the device; see
// bound/rotation.h.
#pragma once

#include <cstdint>

#include "engine/base/scramble.h"
#include "engine/score/host_device.h"

namespace nearfield::bound {

struct RotationShape {
  int32_t dimension = 0;
  int32_t block = 0;  // p, the largest power of two not above the dimension
  int32_t log2_block = 0;
  int32_t row_shift = 0;    // b: rows are scaled by 2^-b in each of the two rounds
  int32_t query_shift = 0;  // a, a + b = log2 p
  uint64_t seed = 0;
};

NEARFIELD_HOST_DEVICE constexpr RotationShape RotationShapeOf(int32_t dimension, uint64_t seed) {
  RotationShape shape;
  shape.dimension = dimension;
  shape.block = 1;
  while (shape.block <= dimension / 2) {
    shape.block *= 2;
    ++shape.log2_block;
  }
  shape.row_shift = shape.log2_block / 2;
  shape.query_shift = shape.log2_block - shape.row_shift;
  shape.seed = seed;
  return shape;
}

// Returns true if round 0 or 1 changes the sign of element i.
NEARFIELD_HOST_DEVICE constexpr bool RotationFlips(const RotationShape& shape, int round,
                                                   int32_t i) {
  const uint64_t of_round = Scramble(round == 0 ? shape.seed : ~shape.seed);
  return (Scramble(of_round + (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u) >> 63) != 0;
}

// Returns an upper bound of the relative error of a computed rotation, whatever the order of its
// butterflies: the difference from the exact rotation divided by the norm of the vector. Each of
// the 2 log2 p levels rounds each element once, by 2^-53 of the norm after it. The norm of a round
// is 2^(log2 p / 2 - shift) <= sqrt(2) on its block and 1 outside it, so no intermediate norm is
// more than twice the first. Another factor of two covers second-order rounding.
NEARFIELD_HOST_DEVICE constexpr double RotationError(const RotationShape& shape) {
  return 8.0 * shape.log2_block * 0x1p-53;
}

}  // namespace nearfield::bound
