#include "engine/plan/search_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "engine/base/checked_math.h"
#include "engine/plan/scan_cost.h"

namespace nearfield::plan {
namespace {

constexpr int64_t kSharedReserved = 1024;  // reserved by CUDA in each block
constexpr int64_t kPartRowsMin = 1024;     // a smaller part is not worth its launches
// Blocks for each one that runs at a time, if there are several sub-tiles of queries.
constexpr int64_t kBlocksOfSlot = 4;

int64_t SharedBytes(const SearchShape& shape, const ScanVariant& variant) {
  return int64_t{8} * shape.dim_padded * variant.queries;
}

int64_t AlignKeys(int64_t keys) { return RoundUp(keys, kKeysAlign); }
int64_t AlignKeysDown(int64_t keys) { return keys / kKeysAlign * kKeysAlign; }

// Returns the widest variant that the queries can use and whose shared memory leaves room for a
// second block on the SM. One query always has a variant.
ScanVariant ChooseVariant(const SearchShape& shape, const DeviceProperties& device,
                          const EngineLimits& engine) {
  ScanVariant chosen = engine.variants.front();
  for (const ScanVariant& variant : engine.variants) {
    const int64_t bytes = SharedBytes(shape, variant) + kSharedReserved;
    const bool fits =
        bytes <= device.shared_bytes_per_block_max && 2 * bytes <= device.shared_bytes_per_sm;
    if (chosen.queries < shape.queries && fits) chosen = variant;
  }
  return chosen;
}

// Returns the blocks that share `rows` rows, for each of `subtiles` sub-tiles of queries.
int32_t ScanBlocks(const SearchShape& shape, const DeviceProperties& device,
                   const ScanVariant& variant, int64_t rows, int32_t rows_per_block,
                   int32_t subtiles) {
  const int64_t by_shared =
      device.shared_bytes_per_sm / (SharedBytes(shape, variant) + kSharedReserved);
  const int64_t per_sm = std::clamp<int64_t>(by_shared, 1, variant.blocks_per_sm);
  // A block copies its queries before it scores rows, so there are no more blocks than it takes to
  // occupy the device evenly.
  const int64_t blocks =
      CeilDiv((subtiles > 1 ? kBlocksOfSlot : 1) * per_sm * device.sm_count, int64_t{subtiles});
  return static_cast<int32_t>(std::min(blocks, CeilDiv(rows, rows_per_block)));
}

// Returns the keys of one query if every generation is scanned whole.
int64_t WholeKeys(const SearchShape& shape) {
  int64_t keys = 0;
  for (const int64_t rows : shape.rows) keys += AlignKeys(rows);
  return keys;
}

int32_t ScannedGenerations(const SearchShape& shape) {
  return static_cast<int32_t>(
      std::count_if(shape.rows.begin(), shape.rows.end(), [](int64_t rows) { return rows > 0; }));
}

// Returns true if the queries that are searched together should be scored in tiles.
bool ScansTiles(const SearchShape& shape, const DeviceProperties& device,
                const EngineLimits& engine, const SearchPlan& plan) {
  const int64_t lists = std::max<int64_t>(1, ScannedGenerations(shape));
  const int64_t fitting = std::min<int64_t>(
      {shape.queries, engine.queries_max, engine.result_keys_max / (plan.results_pitch * lists),
       engine.keys_max / (plan.carry_keys + kPartRowsMin + kKeysAlign),
       engine.query_elements_max / shape.dim_padded});
  const int64_t rows = std::accumulate(shape.rows.begin(), shape.rows.end(), int64_t{0});
  const bool wanted =
      shape.tiles == UseTiles::kAlways ||
      (shape.tiles == UseTiles::kIfFaster && PrefersTiles(fitting, rows, shape.dim_padded));
  return wanted && engine.tile.queries > 0 &&
         engine.tile.shared_bytes + kSharedReserved <= device.shared_bytes_per_block_max;
}

// Returns the queries of the tile: all that fit the workspace in one step, in whole sub-tiles;
// otherwise one sub-tile.
int32_t TileQueries(const SearchShape& shape, const EngineLimits& engine, const SearchPlan& plan) {
  const int64_t lists = std::max<int64_t>(1, ScannedGenerations(shape));
  const int64_t by_results = engine.result_keys_max / (plan.results_pitch * lists);
  const int64_t by_keys =
      engine.keys_max / std::max<int64_t>(1, plan.carry_keys + WholeKeys(shape));
  const int64_t by_elements = engine.query_elements_max / shape.dim_padded;
  const int64_t fitting = std::min<int64_t>({engine.queries_max, by_results, by_keys, by_elements});
  // In parts of the rows, more queries fit.
  const int64_t subtile =
      std::min<int64_t>({plan.queries_per_scan, by_results, by_elements,
                         engine.keys_max / (plan.carry_keys + kPartRowsMin + kKeysAlign)});
  const int64_t queries = std::min<int64_t>(shape.queries, std::max(subtile, fitting));
  const bool all = queries == shape.queries;
  return static_cast<int32_t>(queries > subtile && !all ? queries / subtile * subtile : queries);
}

// Plans the blocks for the selection of a step: per problem, as many as its keys justify and as the
// device holds concurrently.
void PlanSelect(const DeviceProperties& device, const EngineLimits& engine, const SearchPlan& plan,
                PlanStep& step) {
  int64_t keys = 0;
  for (const PlanPiece& piece : step.pieces) {
    keys =
        std::max(keys, piece.row_end - piece.row_begin + (piece.takes_carry ? plan.carry_keys : 0));
  }
  const int64_t problems = static_cast<int64_t>(step.pieces.size()) * plan.queries;
  const int64_t room = device.sm_count / std::min<int64_t>(problems, device.sm_count);
  const int64_t blocks = std::min(room, CeilDiv(keys, engine.keys_per_select_block));
  const int64_t groups = std::min(problems, device.sm_count / blocks);
  step.select_blocks_per_group = static_cast<int32_t>(blocks);
  step.select_groups = static_cast<int32_t>(
      blocks > 1 ? std::min<int64_t>(groups, engine.select_groups_max) : groups);
}

}  // namespace

SearchPlan PlanSearch(const SearchShape& shape, const DeviceProperties& device,
                      const EngineLimits& engine) {
  SearchPlan plan;
  plan.carry_keys = AlignKeys(engine.k_max);
  plan.results_pitch = AlignKeys(shape.k);
  const ScanVariant variant = ChooseVariant(shape, device, engine);
  const bool tiles = ScansTiles(shape, device, engine, plan);
  plan.queries_per_scan = tiles ? engine.tile.queries : variant.queries;
  plan.scan_shared_bytes = tiles ? engine.tile.shared_bytes : SharedBytes(shape, variant);
  const auto blocks_of = [&](int64_t rows) {
    return tiles ? static_cast<int32_t>(CeilDiv(rows, int64_t{engine.tile.rows}))
                 : ScanBlocks(shape, device, variant, rows, engine.scan_rows_per_block,
                              plan.scan_subtiles);
  };
  plan.queries = TileQueries(shape, engine, plan);
  plan.scan_subtiles = static_cast<int32_t>(CeilDiv(plan.queries, plan.queries_per_scan));
  const int64_t room = AlignKeysDown(engine.keys_max / plan.queries);  // keys per query
  int64_t used = plan.carry_keys;
  PlanStep step;
  const auto flush = [&] {
    if (step.pieces.empty()) return;
    PlanSelect(device, engine, plan, step);
    plan.keys_pitch = std::max(plan.keys_pitch, used);
    plan.steps.push_back(step);
    step = PlanStep{};
    used = plan.carry_keys;
  };
  for (std::size_t generation = 0; generation < shape.rows.size(); ++generation) {
    const int64_t rows = shape.rows[generation];
    if (rows == 0) continue;
    const bool cut = plan.carry_keys + AlignKeys(rows) > room;
    if (cut || used + AlignKeys(rows) > room) flush();
    for (int64_t begin = 0; begin < rows;) {
      const int64_t end = std::min(rows, begin + room - used);
      step.pieces.push_back({.generation = static_cast<int32_t>(generation),
                             .row_begin = begin,
                             .row_end = end,
                             .key_begin = used,
                             .takes_carry = begin > 0,
                             .gives_carry = end < rows,
                             .scan_blocks = blocks_of(end - begin)});
      used += AlignKeys(end - begin);
      begin = end;
      if (cut) flush();
    }
  }
  flush();
  return plan;
}

bool WorkspaceIsEnough(const EngineLimits& engine, int32_t generations_max) {
  if (engine.variants.empty() || engine.variants.front().queries != 1) return false;
  const int64_t queries = engine.variants.back().queries;
  return engine.queries_max >= queries &&
         engine.keys_max >= queries * (AlignKeys(engine.k_max) + kPartRowsMin + kKeysAlign) &&
         engine.result_keys_max >= queries * generations_max * AlignKeys(engine.k_max);
}

}  // namespace nearfield::plan
