// RowSearch: the strategy that scores every exact row for every query and selects the best.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/search_job.h"
#include "engine/plan/search_plan.h"

namespace nearfield::gpu {

// Thread safety: one search at a time; it uses the workspace of the core.
class RowSearch {
 public:
  explicit RowSearch(GpuCore& core, plan::UseTiles tiles = plan::UseTiles::kIfFaster)
      : core_(core), tiles_(tiles) {}

  // Answers some queries. Errors: Cancelled, Unavailable.
  absl::Status Search(const SearchJob& job, QuerySpan queries, SearchOutput& out);

 private:
  // Offsets of the parts in the query block of one tile, in bytes.
  struct QueryBlock {
    int64_t k_at = 0;
    int64_t places_at = 0;
    int64_t queries_at = 0;
    const float* vectors = nullptr;  // on the device
  };

  // Plans a tile for the first of some queries, which can be taken together.
  plan::SearchPlan PlanTile(const SearchJob& job, QuerySpan queries, plan::UseTiles tiles) const;
  // Enqueues the copies that fill the query block.
  absl::StatusOr<QueryBlock> StageQueries(const SearchJob& job, QuerySpan queries);
  absl::Status EnqueueScan(const SearchJob& job, const plan::SearchPlan& plan,
                           const plan::PlanPiece& piece, const QueryBlock& block);
  // Enqueues the conversion of the keys of a scan to those of final scores, for the queries that
  // have row terms.
  absl::Status EnqueueFinalKeys(const SearchJob& job, const plan::SearchPlan& plan,
                                const plan::PlanPiece& piece, QuerySpan queries);
  absl::Status EnqueueSelect(const SearchJob& job, const plan::SearchPlan& plan,
                             const plan::PlanStep& step, const QueryBlock& block);
  absl::Status EnqueueAnswers(const SearchJob& job, const plan::SearchPlan& plan, QuerySpan queries,
                              const QueryBlock& block);
  absl::Status RunTile(const SearchJob& job, const plan::SearchPlan& plan, QuerySpan queries,
                       SearchOutput& out);
  // Moves the lists of the tile into the output and adds the tile's cost.
  void TakeResults(const SearchJob& job, const plan::SearchPlan& plan, QuerySpan queries,
                   SearchOutput& out) const;

  GpuCore& core_;
  const plan::UseTiles tiles_;
};

}  // namespace nearfield::gpu
