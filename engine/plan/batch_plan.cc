#include "engine/plan/batch_plan.h"

#include <algorithm>

#include "engine/base/checked_math.h"

namespace nearfield::plan {
namespace {

// Rows of the first stage: enough that the k-th best of them is a useful threshold. While they are
// few, more of them reduce the survivors of later stages; but each of them goes to every queue.
constexpr int64_t kFirstRowsMin = 4096;
constexpr int64_t kFirstRowsEnough = 8192;  // a corpus of at most these is one stage
constexpr int64_t kFirstRowsPerNeighborMin = 8;
constexpr int64_t kFirstRowsPerNeighbor = 64;

int64_t FirstRows(int32_t k) {
  return std::max({kFirstRowsMin, kFirstRowsPerNeighborMin * k,
                   std::min(kFirstRowsEnough, kFirstRowsPerNeighbor * k)});
}

int64_t GrowthMax(int32_t k) { return k <= 16 ? 16 : k <= 128 ? 8 : 4; }

// Returns the ratio of a stage's tiles to those of all stages before it: the smallest that needs no
// more stages than the maximum ratio does.
int64_t Growth(int64_t tiles, int64_t first_tiles, int32_t k) {
  const int64_t whole = CeilDiv(tiles, first_tiles);
  int steps = 0;
  for (int64_t reached = 1; reached < whole; reached *= GrowthMax(k)) ++steps;
  for (int64_t growth = 2;; ++growth) {
    int64_t reached = 1;
    for (int i = 0; i < steps; ++i) reached *= growth;
    if (reached >= whole) return growth;
  }
}

}  // namespace

std::vector<ScanStage> PlanStages(int64_t tiles, int64_t tile_rows, int32_t k, int64_t capacity) {
  const int64_t rows = tiles * tile_rows;
  const int64_t first_rows = std::min(capacity, rows <= kFirstRowsEnough ? rows : FirstRows(k));
  const int64_t first_tiles = std::max<int64_t>(1, first_rows / tile_rows);
  const int64_t growth = Growth(tiles, first_tiles, k);
  std::vector<ScanStage> stages;
  // Builds the stages from the last to the first.
  for (int64_t step = 1;; step *= growth) {
    const bool first = CeilDiv(tiles, step) <= first_tiles;
    const int64_t done_step = first ? 0 : step * growth;
    const int64_t done = first ? 0 : CeilDiv(tiles, done_step);
    stages.push_back({.step = step, .done_step = done_step, .tiles = CeilDiv(tiles, step) - done});
    if (first) break;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace nearfield::plan
