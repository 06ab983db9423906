// Decides in which stages a certified batch scans the rows. Pure host functions; no CUDA.
#ifndef NEARFIELD_ENGINE_PLAN_BATCH_PLAN_H_
#define NEARFIELD_ENGINE_PLAN_BATCH_PLAN_H_

#include <cstdint>
#include <vector>

namespace nearfield::plan {

// Scans the tiles whose number is a multiple of `step`, but not of `done_step`, which is 0 in the
// first stage.
struct ScanStage {
  int64_t step = 1;
  int64_t done_step = 0;
  int64_t tiles = 0;
};

// k: the greatest of the batch. capacity: rows that a query's queue holds. The first stage has no
// threshold, so all its rows fit the queue; each of the others scans several times as many rows as
// those before it, fewer where k is great, as some k times that ratio reach the threshold.
std::vector<ScanStage> PlanStages(int64_t tiles, int64_t tile_rows, int32_t k, int64_t capacity);

}  // namespace nearfield::plan

#endif  // NEARFIELD_ENGINE_PLAN_BATCH_PLAN_H_
