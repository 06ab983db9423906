// Plans how a search runs on a GPU: which queries and rows are processed together, and on how many
// blocks. Pure host functions of shapes, device properties and workspace; no CUDA.
//
// A query tile is copied to the device, scanned and selected, and its answers come back with one
// synchronization. It runs in steps. A step scans whole generations as long as their keys
// fit the workspace, and then selects for each of them. A generation that does not fit alone is
// split into parts, one per step. The k best keys so far (the carry) take part in the selection of
// the next part.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::plan {

// A variant of the scan kernel.
struct ScanVariant {
  int32_t queries = 0;        // scored against a row together
  int32_t blocks_per_sm = 0;  // allowed by its registers
};

// The scan kernel for many queries: a block scores some rows with some queries.
struct ScanTile {
  int32_t queries = 0;  // 0: the device has no such kernel
  int32_t rows = 0;
  int64_t shared_bytes = 0;
};

struct DeviceProperties {
  int32_t sm_count = 0;
  int64_t shared_bytes_per_sm = 0;
  int64_t shared_bytes_per_block_max = 0;
};

// Limits of the kernels and of the workspace.
struct EngineLimits {
  std::vector<ScanVariant> variants;  // ascending queries; the first has 1
  ScanTile tile;
  int32_t scan_rows_per_block = 0;    // rows that a block of a variant scores together
  int64_t keys_per_select_block = 0;  // keys that justify a block
  int32_t select_groups_max = 0;      // maximum number of groups of several blocks
  int64_t keys_max = 0;               // of the workspace, for all queries of a query tile
  int64_t result_keys_max = 0;        // of the result buffer
  int32_t queries_max = 0;            // of a query tile
  int64_t query_elements_max = 0;     // of the vectors of a query tile
  int32_t k_max = 0;
};

enum class UseTiles : uint8_t { kNever, kIfFaster, kAlways };

struct SearchShape {
  int32_t dim_padded = 0;  // elements of a stored row
  int32_t queries = 0;     // not yet answered, >= 1
  int32_t k = 0;           // the largest of them
  UseTiles tiles = UseTiles::kIfFaster;
  // Rows of each generation; 0: it is not scanned.
  absl::Span<const int64_t> rows;
};

// Rows [row_begin, row_end) of a generation. Their keys begin at key_begin of each query's keys.
// The keys of a part of a split generation follow the carry. In the second part and later ones, the
// selection begins at the carry, position 0.
struct PlanPiece {
  int32_t generation = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t key_begin = 0;
  bool takes_carry = false;
  bool gives_carry = false;  // its k best keys are carried to the next part
  int32_t scan_blocks = 0;
};

struct PlanStep {
  std::vector<PlanPiece> pieces;
  int32_t select_groups = 0;
  int32_t select_blocks_per_group = 0;
};

struct SearchPlan {
  int32_t queries = 0;            // of this query tile: the first of the shape's queries
  int32_t queries_per_scan = 0;   // of the chosen variant or of the tile
  int32_t scan_subtiles = 0;      // ceil(queries / queries_per_scan): number of reads of each row
  int64_t scan_shared_bytes = 0;  // of a block
  int64_t carry_keys = 0;         // keys reserved at the start of each query's keys
  int64_t keys_pitch = 0;         // keys per query
  int64_t results_pitch = 0;      // keys per list
  std::vector<PlanStep> steps;
};

// Keys of a piece start at multiples of this, so that 16-byte loads are aligned.
inline constexpr int64_t kKeysAlign = 16;

// Plans the next query tile. Requires: the limits of a workspace that passes WorkspaceIsEnough.
SearchPlan PlanSearch(const SearchShape& shape, const DeviceProperties& device,
                      const EngineLimits& engine);

// Returns true if any legal shape can be planned: the workspace has room for the carry and some
// rows of a full sub-tile, and for its results from `generations_max` generations.
bool WorkspaceIsEnough(const EngineLimits& engine, int32_t generations_max);

}  // namespace nearfield::plan
