// CodeScan: finds the rows of one generation that may be among the best of a group of queries by
// their codes, and scores them canonically, on the threads of the pool.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/cpu/candidates.h"
#include "engine/cpu/code_queries.h"
#include "engine/cpu/first_error.h"
#include "engine/cpu/generation_scan.h"
#include "engine/cpu/live_tile.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

// Borrows all arguments for one Run. Requires: the caller holds SharedThreads::turn.
class CodeScan {
 public:
  // view: the generation as the search sees it.
  CodeScan(const GenerationScan::Context& context, const QueryGroup& group, CodeQueries& queries,
           const backend::GenerationView& view);

  // Fills the list of every query that is not abandoned at the end with the best rows of the
  // generation in its order: at least the rows that reach the query's floor after all scans.
  // Abandons queries whose bounds rule out too few rows (CodeQueries::Abandon). Adds to *cost.
  // Errors: as GenerationScan.
  absl::Status Run(const ScanOutput& best, backend::ScanCost* cost);

 private:
  void PlanTiles();
  void PrepareWorkspace();
  int64_t TileAt(int64_t turn) const;
  int64_t ForwardTileAt(int64_t turn) const;
  void ScanTiles(int32_t worker);
  void ScanTilesOf(int32_t worker, ThreadWorkspace& space);
  void ScanTileOneByOne(int64_t begin, int32_t rows_count, ThreadWorkspace& space);
  void RaiseFirstFloor(int32_t query, int64_t begin, int32_t rows_count,
                       const ThreadWorkspace& space);
  // live: the rows to scan of [begin, begin + rows_count).
  void ScanTileInPanels(int64_t begin, int32_t rows_count, const LiveTile& live,
                        ThreadWorkspace& space);
  void FinalizeTile(ThreadWorkspace& space);
  // Returns true if a row scan is cheaper for the query. work: spent on it by all threads so far;
  // waiting: candidates still to score.
  bool RowsAreCheaper(int32_t query, int64_t work, int64_t waiting) const;
  // Returns true if the query does not see the row.
  bool Absent(int32_t query, int64_t slot) const {
    return context_.workspace->absent[static_cast<size_t>(query)].Holds(slot);
  }
  CandidateContext ContextOf(ThreadWorkspace& space) const {
    return {&planes_, context_.kernels, &queries_, &space, &group_};
  }

  const GenerationScan::Context context_;
  const QueryGroup& group_;
  CodeQueries& queries_;
  const CpuRowPlanes& planes_;
  const backend::GenerationView& view_;
  const uint64_t* const deleted_;  // of the search; null: no row is deleted
  const int32_t queries_count_;
  int32_t rows_a_tile_ = 0;
  int64_t tiles_count_ = 0;
  int64_t probes_count_ = 0;
  int32_t participants_ = 1;
  std::atomic<int64_t> next_turn_{0};
  std::atomic<int64_t> rows_scanned_{0};  // includes deleted rows that were skipped
  std::atomic<int64_t> rows_read_{0};
  std::atomic<int32_t> next_merge_{0};
  std::atomic<bool> cancelled_{false};
  FirstError error_;
};

}  // namespace nearfield::cpu
