// Decides when the segments and records of a collection should be compacted.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "server/store/store_core.h"

namespace nearfield::store {

inline bool IsSmall(const CommittedSegment& segment, const CompactOptions& options) {
  return segment.row().bytes < options.small_bytes_max;
}

// Returns whether patches take more memory than a load should add to that of the rows.
bool PatchesLarge(const StoreCore& core, int64_t collection)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex);

// Returns whether there are many small patch records, which all take memory, in addition to large
// ones.
bool PatchesScattered(const Tables::PatchTotals& patches);

// Why a collection should be compacted.
struct Due {
  bool segments = false;   // some segments should be rewritten
  bool scattered = false;  // patch records should be joined
};

Due DueOf(const StoreCore& core, int64_t collection, const CompactOptions& options)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex);

}  // namespace nearfield::store
