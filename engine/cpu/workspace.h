// Workspace: memory of a search, kept from one search to the next. It grows to the largest search
// so far and never shrinks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/query_views.h"
#include "engine/base/scratch_buffer.h"
#include "engine/cpu/candidates.h"
#include "engine/cpu/kernels/code_kernels.h"
#include "engine/cpu/top_keys.h"

namespace nearfield::cpu {

// Memory that one thread of a scan writes.
struct alignas(64) ThreadWorkspace {
  ScratchBuffer<double> kernel_scratch;
  ScratchBuffer<double> sums;
  ScratchBuffer<double> row_roots;
  ScratchBuffer<int32_t> surviving;
  ScratchBuffer<uint64_t> keys;  // of all queries of the group, consecutive
  ScratchBuffer<uint64_t> merged;
  std::vector<TopKeys> best;  // one per query of the group
  // For code scans only.
  ScratchBuffer<int32_t> products;
  ScratchBuffer<float> upper;
  ScratchBuffer<float> thresholds;
  ScratchBuffer<Survivor> survivors;
  ScratchBuffer<int32_t> live_rows;  // of a tile, written by LiveRows
  ScratchBuffer<uint8_t> live_codes;
  ScratchBuffer<bound::RowBound> live_bounds;
  ScratchBuffer<Candidate> candidates;  // of all queries, consecutive
  std::vector<Candidates> lists;        // one per query of the group
};

struct Workspace {
  explicit Workspace(int32_t threads_count) : threads(static_cast<size_t>(threads_count)) {}

  std::vector<ThreadWorkspace> threads;
  ScratchBuffer<double> queries;            // the group's queries, packed
  std::vector<double> query_squares;        // S(q,q) of the group's queries
  std::vector<backend::AbsentRows> absent;  // rows that each query of the group does not see
  std::vector<int64_t> candidate_offsets;   // start of each query's candidates
  std::vector<int32_t> k;                   // of each query, at most the generation's rows
  // The best threshold that any thread has found, per query.
  std::unique_ptr<std::atomic<uint64_t>[]> thresholds;
  int64_t thresholds_count = 0;
};

}  // namespace nearfield::cpu
