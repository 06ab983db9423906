#include "server/store/compaction_due.h"

#include <algorithm>

#include "server/store/store.h"

namespace nearfield::store {

bool PatchesLarge(const StoreCore& core, int64_t collection) {
  constexpr int64_t kPatchBytesMin = int64_t{256} << 20;
  constexpr int64_t kPatchBytesMax = int64_t{1} << 30;
  int64_t bytes = 0;
  for (const auto& segment : core.SegmentsOf(collection)) bytes += segment->row().bytes;
  return core.catalog->tables().PatchTotalsOf(collection).bytes >
         std::clamp(bytes / 4, kPatchBytesMin, kPatchBytesMax);
}

bool PatchesScattered(const Tables::PatchTotals& patches) {
  constexpr int64_t kRecordsMin = 1024;
  return patches.records >
         std::max(kRecordsMin, patches.rows / 4) + patches.bytes / kRecordBytesMax;
}

Due DueOf(const StoreCore& core, int64_t collection, const CompactOptions& options) {
  int64_t rows = 0;
  int64_t old_max = 0;  // each id in a record made at most one stored row dead or patched
  int64_t small = 0;
  for (const auto& segment : core.SegmentsOf(collection)) {
    rows += segment->row().rows;
    old_max += static_cast<int64_t>(segment->row().superseded.size() / 8);
    if (IsSmall(*segment, options)) ++small;
  }
  for (const auto& [id, row] : core.catalog->tables().Of<DeletionRow>()) {
    if (row.collection == collection) old_max += row.ids_count;
  }
  const Tables::PatchTotals patches = core.catalog->tables().PatchTotalsOf(collection);
  old_max += patches.rows;
  return {
      .segments = small >= options.small_segments_min || PatchesLarge(core, collection) ||
                  static_cast<double>(old_max) > options.dead_share_max * static_cast<double>(rows),
      .scattered = PatchesScattered(patches)};
}

bool Store::CompactionDue(int64_t collection_id, const CompactOptions& options) const {
  const MutexLock lock(core_->mutex);
  const Due due = DueOf(*core_, collection_id, options);
  return due.segments || due.scattered;
}

}  // namespace nearfield::store
