// The backend: hands out planes and bitmaps, and runs search plans on the device.
#ifndef NEARFIELD_ENGINE_GPU_GPU_BACKEND_H_
#define NEARFIELD_ENGINE_GPU_GPU_BACKEND_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/backend.h"
#include "engine/gpu/gpu_core.h"
#include "engine/gpu/gpu_row_planes.h"
#include "engine/plan/search_plan.h"

namespace nearfield::gpu {

class GpuBackend : public corpus::Backend {
 public:
  GpuBackend(std::shared_ptr<GpuCore> core, const GpuOptions& options);

  const corpus::BackendFacts& facts() const override { return facts_; }
  absl::StatusOr<std::unique_ptr<corpus::RowPlanes>> Reserve(const corpus::RowFormat& format,
                                                             int64_t rows_max) override;
  absl::StatusOr<std::unique_ptr<corpus::Tombstones>> MakeTombstones(
      std::vector<uint64_t> words) override;
  absl::StatusOr<corpus::BestRows> Search(const corpus::RowFormat& format,
                                          absl::Span<const corpus::GenerationView> generations,
                                          const corpus::QueryTile& tile,
                                          corpus::ScanCost* cost) override;
  int64_t device_bytes_total() const override { return core_->arena().bytes_total(); }
  int64_t device_bytes_used() const override { return core_->arena().bytes_used(); }
  absl::Status Health() const override { return core_->health().status(); }

 private:
  // One call of Search, checked.
  struct Job {
    corpus::RowFormat format;
    RowShape shape;
    std::vector<const GpuRowPlanes*> planes;  // one a generation
    std::vector<TombstoneView> tombstones;    // one a generation
    std::vector<int64_t> rows;                // to scan: 0 where no row is live
    const corpus::QueryTile* queries = nullptr;
  };
  // Where the parts of the query block of one tile lie, in bytes.
  struct QueryBlock {
    int64_t k_at = 0;
    int64_t queries_at = 0;
    int64_t bytes = 0;
  };

  absl::StatusOr<Job> MakeJob(const corpus::RowFormat& format,
                              absl::Span<const corpus::GenerationView> generations,
                              const corpus::QueryTile& tile) const;
  plan::SearchPlan PlanTile(const Job& job, int64_t first_query) const;
  QueryBlock StageQueries(const Job& job, const plan::SearchPlan& plan, int64_t first_query);
  absl::Status EnqueueScan(const Job& job, const plan::SearchPlan& plan,
                           const plan::PlanPiece& piece, const QueryBlock& block);
  absl::Status EnqueueSelect(const plan::SearchPlan& plan, const plan::PlanStep& step,
                             const std::vector<int32_t>& slots, const QueryBlock& block);
  absl::Status RunTile(const Job& job, const plan::SearchPlan& plan, int64_t first_query);
  // Puts the lists of the tile into `best` and adds up the candidates.
  void TakeResults(const Job& job, const plan::SearchPlan& plan, int64_t first_query,
                   corpus::BestRows& best, corpus::ScanCost& cost) const;

  const std::shared_ptr<GpuCore> core_;
  corpus::BackendFacts facts_;
  std::mutex search_mutex_;  // one search at a time has the workspace
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_GPU_BACKEND_H_
