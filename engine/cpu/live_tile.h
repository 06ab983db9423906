// The rows of a tile of codes that a scan has to look at.
#ifndef NEARFIELD_ENGINE_CPU_LIVE_TILE_H_
#define NEARFIELD_ENGINE_CPU_LIVE_TILE_H_

#include <cstdint>

#include "engine/cpu/code_kernels.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

struct LiveTile {
  CodeTile tile;
  const score::RowBound* bounds = nullptr;  // [tile.rows_count]
  const int32_t* rows = nullptr;            // which of the asked ones these are; null: all of them

  int32_t RowAt(int32_t i) const { return rows == nullptr ? i : rows[i]; }
};

// Memory for LiveRows of tiles of so many rows.
void PrepareLiveTile(int64_t code_stride, int32_t rows_max, ThreadWorkspace& space);

// Rows [begin, begin + rows_count). Where a fourth or more of them are deleted, the others are
// copied side by side into `space`, so that many queries pay for these alone; else they stay where
// they are, deleted ones among them. deleted: a bit a row of the planes, or null.
LiveTile LiveRows(const CpuRowPlanes& planes, const uint64_t* deleted, int64_t begin,
                  int32_t rows_count, ThreadWorkspace& space);

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_LIVE_TILE_H_
