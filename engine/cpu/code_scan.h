// The rows of one generation that may be among the best of a group of queries, found by their codes
// and scored canonically, on the threads of the pool.
#ifndef NEARFIELD_ENGINE_CPU_CODE_SCAN_H_
#define NEARFIELD_ENGINE_CPU_CODE_SCAN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/thread_pool.h"
#include "engine/corpus/backend.h"
#include "engine/cpu/candidates.h"
#include "engine/cpu/code_queries.h"
#include "engine/cpu/first_error.h"
#include "engine/cpu/generation_scan.h"
#include "engine/cpu/live_tile.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

// Borrows everything for one Run. The caller holds SharedThreads::turn.
class CodeScan {
 public:
  CodeScan(const GenerationScan::Context& context, const QueryGroup& group, CodeQueries& queries,
           const corpus::GenerationView& view);

  // For every query that is not given up at the end: *best[query] holds the best rows of the
  // generation in its order, at least those that reach the query's floor at the end of all scans.
  // Gives queries up (CodeQueries::GiveUp) that bounds help too little. Adds to *cost.
  // Errors: as GenerationScan.
  absl::Status Run(absl::Span<std::vector<corpus::RankedScore>* const> best,
                   corpus::ScanCost* cost);

 private:
  void PlanTiles();
  void PrepareWorkspace();
  bool Cancelled() const;  // asks the caller; on its thread only
  int64_t TileAt(int64_t turn) const;
  void ScanTiles(int32_t worker);
  void ScanTileOneByOne(int64_t begin, int32_t rows_count, ThreadWorkspace& space);
  // `live` are rows of the tile that starts at `begin`.
  void ScanTileInPanels(int64_t begin, const LiveTile& live, ThreadWorkspace& space);
  void Settle(ThreadWorkspace& space);
  // Whether the query does better to give up: `work` has been spent on it by all threads, so many
  // candidates wait.
  bool RowsAreCheaper(int32_t query, int64_t work, int64_t waiting) const;
  bool Deleted(int64_t slot) const {
    return deleted_ != nullptr && ((deleted_[slot / 64] >> (slot % 64)) & 1) != 0;
  }
  CandidateContext ContextOf(ThreadWorkspace& space) const {
    return {&planes_, context_.kernels, &queries_, &space};
  }

  const GenerationScan::Context context_;
  const QueryGroup& group_;
  CodeQueries& queries_;
  const CpuRowPlanes& planes_;
  const uint64_t* const deleted_;  // null: none
  const int32_t queries_count_;
  int32_t rows_a_tile_ = 0;
  int64_t tiles_count_ = 0;
  int64_t probes_count_ = 0;
  int32_t participants_ = 1;
  std::atomic<int64_t> next_turn_{0};
  std::atomic<int64_t> rows_scanned_{0};  // or left out, as they are deleted
  std::atomic<int64_t> rows_read_{0};
  std::atomic<int32_t> next_merge_{0};
  std::atomic<bool> cancelled_{false};
  FirstError error_;
};

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_CODE_SCAN_H_
