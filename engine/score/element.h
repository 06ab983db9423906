// Reads one element of a row, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/score/row_types.h"
#include "nearfield/engine/types.h"

namespace nearfield::score {

// Returns element `index` of a row, exactly. The row's memory need not be aligned.
inline float ElementAt(RowType row_type, const void* row, size_t index) {
  if (row_type == RowType::kFloat32) {
    float value;
    std::memcpy(&value, static_cast<const char*>(row) + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(row) + index * sizeof(bits), sizeof(bits));
  return row_type == RowType::kFloat16 ? FloatFromHalfBits(bits) : FloatFromBfloat16Bits(bits);
}

}  // namespace nearfield::score
