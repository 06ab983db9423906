// GenerationScan: the exact top-k of one generation for a group of queries, on the pool's threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/query_views.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/final_scores.h"
#include "engine/cpu/first_error.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

// Queries that are scanned together, packed in Workspace::queries.
struct QueryGroup {
  backend::RowFormat format;
  absl::Span<const int32_t> k;
  const std::function<bool()>* cancelled = nullptr;
  absl::Span<const backend::TermSource* const> terms;  // as QueryTile::terms
  absl::Span<const backend::Views> views;              // as QueryTile::views
  size_t generation = 0;                               // that is scanned
  // Set if the codes of all generations together fit in a core's cache, about: one thread scans
  // them, and does not prefetch. It begins where the previous search ended, whose rows the cache
  // still has: every other search goes backward.
  bool cached = false;
  bool backward = false;

  // Calls the caller's function. On the caller's thread only.
  bool Cancelled() const { return *cancelled != nullptr && (*cancelled)(); }
  FinalScores finals(int32_t query) const {
    return {terms.empty() ? nullptr : terms[static_cast<size_t>(query)], generation};
  }
};

// Lists in *absent, for each query of the group, the rows of the scanned generation that it does
// not see.
void ListAbsentRows(const QueryGroup& group, const backend::GenerationView& view,
                    std::vector<backend::AbsentRows>* absent);

// The lists that a scan fills: one list for each query of its group.
struct ScanOutput {
  backend::RankedLists* lists = nullptr;
  size_t generation = 0;
  absl::Span<const size_t> queries;  // the place of each query in `lists`

  void Assign(int32_t query, absl::Span<const uint64_t> keys) const {
    lists->Assign(queries[static_cast<size_t>(query)], generation, keys);
  }
};

// Borrows all arguments for one Run. Requires: the caller holds SharedThreads::turn.
class GenerationScan {
 public:
  struct Context {
    ThreadPool* pool = nullptr;
    const ScanKernels* kernels = nullptr;
    Workspace* workspace = nullptr;
  };

  // view: the generation as the search sees it.
  GenerationScan(const Context& context, const QueryGroup& group,
                 const backend::GenerationView& view);

  // Fills the list of every query of the group and adds to *cost. Errors: Cancelled,
  // FailedPrecondition (a thread is not in the arithmetic mode that exact scores require).
  absl::Status Run(const ScanOutput& best, backend::ScanCost* cost);

 private:
  void PlanTiles();
  void PrepareWorkspace();
  void ScanTiles(int32_t worker);
  void ScanTile(int64_t tile, int64_t next_tile, ThreadWorkspace& space);
  void SelectRows(int32_t query, int64_t begin, int32_t rows_count, TileSums& term_sums,
                  ThreadWorkspace& space);
  void Merge(const ScanOutput& best, int32_t worker);
  int32_t RowsInTile(int64_t tile) const;

  const Context context_;
  const QueryGroup& group_;
  const CpuRowPlanes& planes_;
  const backend::GenerationView& view_;
  const int32_t queries_count_;
  const SumKind kind_;
  int32_t rows_a_tile_ = 0;
  int64_t tiles_count_ = 0;
  int32_t participants_ = 1;
  std::atomic<int64_t> next_tile_{0};
  std::atomic<int32_t> next_merge_{0};
  std::atomic<bool> cancelled_{false};
  FirstError error_;
};

}  // namespace nearfield::cpu
