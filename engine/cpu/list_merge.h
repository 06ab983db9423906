// Merges the lists of all threads into one.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

// Prepares empty lists of min(k, rows_count) keys for queries with these k in the memory of threads
// 0 .. participants-1.
void PrepareLists(Workspace& workspace, absl::Span<const int32_t> k, int64_t rows_count,
                  int32_t participants);

// Returns the best workspace.k[query] keys that threads 0 .. participants-1 have kept for `query`,
// in order. They are in the memory of thread `worker`, valid until its next call.
absl::Span<const uint64_t> MergeLists(Workspace& workspace, int32_t participants, int32_t query,
                                      int32_t worker);

// Returns the number of threads to merge that many keys with.
int32_t MergeThreads(int64_t keys, int32_t queries_count, int32_t participants);

}  // namespace nearfield::cpu
