// LiveTile: the rows of a tile of codes that a scan must read.
#pragma once

#include <cstdint>

#include "engine/cpu/kernels/code_kernels.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

struct LiveTile {
  CodeTile tile;
  const bound::RowBound* bounds = nullptr;  // [tile.rows_count]
  const int32_t* rows = nullptr;            // their indexes among the given rows; null: all rows

  int32_t RowAt(int32_t i) const { return rows == nullptr ? i : rows[i]; }
};

// Allocates memory in `space` for LiveRows of tiles of up to rows_max rows.
void PrepareLiveTile(int64_t code_stride, int32_t rows_max, ThreadWorkspace& space);

// Returns the rows to scan of rows [begin, begin + rows_count). If a quarter or more of them are
// deleted, copies the others into contiguous memory of `space`, so that many queries pay for these
// alone. Otherwise returns them in place, including the deleted ones. deleted: one bit per row of
// the planes, or null.
LiveTile LiveRows(const CpuRowPlanes& planes, const uint64_t* deleted, int64_t begin,
                  int32_t rows_count, ThreadWorkspace& space);

}  // namespace nearfield::cpu
