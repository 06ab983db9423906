// Sorts rows of scores, as 64-bit keys, by the high bits of the score. Host side.
//
// The sort is stable and a row's keys start in ascending order of the index, so keys that agree in
// the sorted bits stay in that order. If no other bits differ, it is the order of the answer.
#pragma once

#include <cstdint>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu::published {

struct RowSortPlan {
  int64_t rows = 0;           // sorted together; the next rows reuse the memory
  bool segmented = false;     // one block per row, all rows in one launch
  int64_t keys_bytes = 0;     // of one of the two buffers
  int64_t scratch_bytes = 0;  // at least the size that CUB requires

  int64_t bytes() const { return 2 * keys_bytes + scratch_bytes; }
};

// Returns the plan for a shape. Needs no device.
RowSortPlan PlanRowSort(const SelectShape& shape);

struct RowRange {
  int64_t begin = 0;
  int64_t rows = 0;  // at most RowSortPlan::rows
};

// Sorts some rows of the call by bits [begin_bit, 32) of their orders, descending. Asynchronous.
// Uses plan.bytes() of memory after the state in the call's workspace. *sorted: the keys
// afterwards, [rows, n].
cudaError_t LaunchRowSort(const SelectCall& call, const RowSortPlan& plan, RowRange range,
                          int begin_bit, const uint64_t** sorted);

}  // namespace nearfield::gpu::published
