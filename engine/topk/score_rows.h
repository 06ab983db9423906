// Rows of scores in device memory, and where their answers go. Plain data: the argument of every
// kernel that reads scores.
#pragma once

#include <cstdint>

#include "nearfield/engine/score_type.h"

namespace nearfield::gpu {

struct ScoreRows {
  const void* scores = nullptr;
  int64_t stride = 0;  // scores from the begin of a row to that of the next
  // Bounds of ragged rows, as in select::Buffers; null: every row has n scores.
  const int32_t* row_begin = nullptr;  // [batch]
  const int32_t* row_end = nullptr;    // [batch]
  // The row of each place in a launch, longest rows first; null: places are rows.
  const uint32_t* order = nullptr;  // [batch]
  uint32_t n = 0;                   // scores in a row, or the most
  uint32_t k = 0;
  void* values = nullptr;       // [batch, k]
  uint32_t* indices = nullptr;  // [batch, k]

  // Returns the rows that begin at `row`, without an order.
  ScoreRows From(int64_t row, ScoreType type) const {
    const int64_t bytes = BytesPerElement(type);
    ScoreRows rest = *this;
    rest.scores = static_cast<const char*>(scores) + row * stride * bytes;
    rest.row_begin = row_begin == nullptr ? nullptr : row_begin + row;
    rest.row_end = row_end == nullptr ? nullptr : row_end + row;
    rest.order = nullptr;
    rest.values = static_cast<char*>(values) + row * k * bytes;
    rest.indices = indices + row * k;
    return rest;
  }
};

}  // namespace nearfield::gpu
