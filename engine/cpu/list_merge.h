// Merges the lists of all threads into one.
#ifndef NEARFIELD_ENGINE_CPU_LIST_MERGE_H_
#define NEARFIELD_ENGINE_CPU_LIST_MERGE_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

// Stores the best workspace.k[query] rows that threads 0 .. participants-1 have kept for `query`,
// in order. Uses the memory of thread `worker`.
void MergeLists(Workspace& workspace, int32_t participants, int32_t query, int32_t worker,
                std::vector<corpus::RankedScore>* best);

// Returns the number of threads to merge that many keys with.
int32_t MergeThreads(int64_t keys, int32_t queries_count, int32_t participants);

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_LIST_MERGE_H_
