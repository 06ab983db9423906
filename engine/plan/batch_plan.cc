#include "engine/plan/batch_plan.h"

#include <algorithm>

#include "engine/base/checked_math.h"

namespace nearfield::plan {
namespace {

// Rows of the first stage: enough that the k-th best of them says something.
constexpr int64_t kFirstRowsMin = 4096;
constexpr int64_t kFirstRowsPerNeighbor = 8;

int64_t Growth(int32_t k) { return k <= 16 ? 16 : k <= 128 ? 8 : 4; }

}  // namespace

std::vector<ScanStage> PlanStages(int64_t tiles, int64_t tile_rows, int32_t k, int64_t capacity) {
  const int64_t first_rows =
      std::min(capacity, std::max(kFirstRowsMin, kFirstRowsPerNeighbor * int64_t{k}));
  const int64_t first_tiles = std::max<int64_t>(1, first_rows / tile_rows);
  std::vector<ScanStage> stages;
  // From the last stage to the first.
  for (int64_t step = 1;; step *= Growth(k)) {
    const bool first = CeilDiv(tiles, step) <= first_tiles;
    const int64_t done_step = first ? 0 : step * Growth(k);
    const int64_t done = first ? 0 : CeilDiv(tiles, done_step);
    stages.push_back({.step = step, .done_step = done_step, .tiles = CeilDiv(tiles, step) - done});
    if (first) break;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace nearfield::plan
