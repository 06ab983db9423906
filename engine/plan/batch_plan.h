// Plans the stages in which a certified batch scans the rows. Pure host functions; no CUDA.
#pragma once

#include <cstdint>
#include <vector>

namespace nearfield::plan {

// A stage scans the row tiles whose index is a multiple of `step` but not of `done_step`.
// done_step: tiles at its multiples were scanned by earlier stages; 0: no tile was.
struct ScanStage {
  int64_t step = 1;
  int64_t done_step = 0;
  int64_t tiles = 0;
};

// Returns the stages of a batch over `tiles` row tiles of `tile_rows` rows. k: the largest of the
// batch. capacity: rows that a query's queue holds. The first stage has no threshold, so all its
// rows must fit in the queue. Each later stage scans several times as many rows as all stages
// before it. This ratio is smaller for large k, because about k times the ratio rows reach the
// threshold.
std::vector<ScanStage> PlanStages(int64_t tiles, int64_t tile_rows, int32_t k, int64_t capacity);

}  // namespace nearfield::plan
