#include "engine/cpu/live_tile.h"

#include <cstring>

namespace nearfield::cpu {
namespace {

// For a group of 64 queries, copying a row costs about a tenth of its products. If fewer than one
// row in this number is deleted, the copy costs as much as it saves.
constexpr int32_t kRowsADeletedMin = 4;

}  // namespace

void PrepareLiveTile(int64_t code_stride, int32_t rows_max, ThreadWorkspace& space) {
  space.live_rows.Ensure(rows_max);
  space.live_bounds.Ensure(rows_max);
  space.live_codes.Ensure(rows_max * code_stride);
}

LiveTile LiveRows(const CpuRowPlanes& planes, const uint64_t* deleted, int64_t begin,
                  int32_t rows_count, ThreadWorkspace& space) {
  const LiveTile all = {planes.code_tile(begin, rows_count), planes.bounds() + begin, nullptr};
  if (deleted == nullptr) return all;
  int32_t* const rows = space.live_rows.get();
  int32_t count = 0;
  for (int32_t r = 0; r < rows_count; ++r) {
    const int64_t slot = begin + r;
    rows[count] = r;
    count += ((deleted[slot / 64] >> (slot % 64)) & 1) != 0 ? 0 : 1;
  }
  if ((rows_count - count) * kRowsADeletedMin < rows_count) return all;
  const int64_t stride = planes.code_stride();
  uint8_t* const codes = space.live_codes.get();
  bound::RowBound* const bounds = space.live_bounds.get();
  for (int32_t i = 0; i < count; ++i) {
    std::memcpy(codes + i * stride, all.tile.codes + rows[i] * stride, static_cast<size_t>(stride));
    bounds[i] = all.bounds[rows[i]];
  }
  return {{codes, count, all.tile.dim}, bounds, rows};
}

}  // namespace nearfield::cpu
