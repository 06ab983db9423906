// GpuTopkEngine implements corpus::Backend on a GPU: it creates row planes and tombstones, and runs
// searches.
#ifndef NEARFIELD_ENGINE_GPU_GPU_TOPK_ENGINE_H_
#define NEARFIELD_ENGINE_GPU_GPU_TOPK_ENGINE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/bound/query_encoder.h"
#include "engine/bound/rotation.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/memory/gpu_row_planes.h"
#include "engine/plan/scan_choice.h"
#include "engine/plan/search_plan.h"

namespace nearfield::gpu {

class GpuTopkEngine : public corpus::Backend {
 public:
  GpuTopkEngine(std::shared_ptr<GpuCore> core, const GpuOptions& options);

  const corpus::BackendFacts& facts() const override { return facts_; }
  absl::StatusOr<std::unique_ptr<corpus::RowPlanes>> Reserve(const corpus::RowFormat& format,
                                                             int64_t rows_max) override;
  absl::StatusOr<std::unique_ptr<corpus::Tombstones>> MakeTombstones(
      std::vector<uint64_t> words) override;
  absl::Status Search(const corpus::RowFormat& format,
                      absl::Span<const corpus::GenerationView> generations,
                      const corpus::QueryTile& tile, corpus::RankedLists* best,
                      corpus::ScanCost* cost) override;
  int64_t device_bytes_total() const override { return core_->arena().bytes_total(); }
  int64_t device_bytes_used() const override { return core_->arena().bytes_used(); }
  int64_t host_rows_bytes_total() const override { return core_->host_rows().bytes_total(); }
  int64_t host_rows_bytes_used() const override { return core_->host_rows().bytes_used(); }
  absl::Status Health() const override { return core_->health().status(); }

 private:
  // The checked arguments of one call of Search.
  struct Job {
    corpus::RowFormat format;
    RowShape shape;
    std::vector<const GpuRowPlanes*> planes;  // one per generation
    std::vector<TombstoneView> tombstones;    // one per generation
    std::vector<SlotList> live_slots;         // one per generation; empty if not listed
    bool listed = false;                      // only the listed slots are scanned
    std::vector<int64_t> rows;                // rows to scan per generation: 0 if no row is live
    std::vector<int64_t> scanned;             // indexes of the generations with rows to scan
    const corpus::QueryTile* queries = nullptr;
  };
  // Offsets of the parts in the query block of one tile, and its size, in bytes.
  struct QueryBlock {
    int64_t k_at = 0;
    int64_t queries_at = 0;
    int64_t bytes = 0;
  };

  absl::StatusOr<Job> MakeJob(const corpus::RowFormat& format,
                              absl::Span<const corpus::GenerationView> generations,
                              const corpus::QueryTile& tile) const;
  // Limits the scan to the listed live rows, if they are few and that takes less time.
  void ChooseListed(Job& job) const;
  // Plans a tile that starts with queries [first_query, first_query + queries).
  plan::SearchPlan PlanTile(const Job& job, int64_t first_query, int64_t queries) const;
  QueryBlock StageQueries(const Job& job, const plan::SearchPlan& plan, int64_t first_query);
  absl::Status EnqueueScan(const Job& job, const plan::SearchPlan& plan,
                           const plan::PlanPiece& piece, const QueryBlock& block);
  absl::Status EnqueueSelect(const plan::SearchPlan& plan, const plan::PlanStep& step,
                             const std::vector<int32_t>& slots, const QueryBlock& block);
  // Answers queries [first_query, first_query + queries) from the exact rows.
  absl::Status SearchRows(const Job& job, int64_t first_query, int64_t queries,
                          corpus::RankedLists& best, corpus::ScanCost& cost);
  absl::Status RunTile(const Job& job, const plan::SearchPlan& plan, int64_t first_query);
  // Moves the lists of the tile into `best` and adds the tile's cost to `cost`.
  void TakeResults(const Job& job, const plan::SearchPlan& plan, int64_t first_query,
                   corpus::RankedLists& best, corpus::ScanCost& cost) const;

  // The certified scan: gpu_certified.cc.
  bool ScansCodes(const Job& job) const;
  plan::ScanWork WorkOf(const Job& job, int64_t queries) const;
  CodedCorpus CorpusOf(const Job& job) const;
  // Converts the keys of an answer into lists per generation. The keys are in order, best first; if
  // the corpus has several generations, they include all ties of the k-th.
  void TakeKeys(const Job& job, const CodedCorpus& corpus, int64_t query,
                absl::Span<const uint64_t> keys, corpus::RankedLists& best) const;
  // Returns the arguments that all queries of a search share.
  OneQueryArgs CodeArgs(const CodedCorpus& corpus, const Job& job) const;
  // Answers all queries. Scans the exact rows for a query with too many candidates.
  absl::Status SearchCodes(const Job& job, corpus::RankedLists& best, corpus::ScanCost& cost);
  // Answers one query. Returns false if it had too many candidates.
  absl::StatusOr<bool> SearchOneQuery(const Job& job, int64_t query, OneQueryArgs& args,
                                      corpus::RankedLists& best, corpus::ScanCost& cost);
  // Stores the codes and the vector of a query where the kernel reads them.
  absl::Status StageCodes(const Job& job, const float* vector, OneQueryArgs& args);
  // Returns the rotation of this format. Caches the last one. Requires: search_mutex_ is held.
  const corpus::Rotation& Rotation(const corpus::RowFormat& format);
  // Queries that are answered together.
  struct BatchShape {
    int64_t queries = 0;   // 0: the batch kernels cannot serve them
    int64_t capacity = 0;  // entries per queue
    int32_t k = 0;         // largest k of these queries
    int32_t keys_pitch = 0;
  };
  BatchShape ShapeBatch(const Job& job, const CodedCorpus& corpus, int64_t first_query) const;
  absl::StatusOr<BatchArgs> StageBatch(const Job& job, const CodedCorpus& corpus,
                                       int64_t first_query, const BatchShape& shape);
  absl::Status RunBatch(const Job& job, const BatchArgs& args, const BatchShape& shape);
  // Answers the queries of the shape. Appends queries that had too many candidates to `left`.
  absl::Status SearchBatch(const Job& job, const CodedCorpus& corpus, int64_t first_query,
                           const BatchShape& shape, corpus::RankedLists& best,
                           corpus::ScanCost& cost, std::vector<int64_t>& left);
  absl::StatusOr<OneQueryOutcome> RunOneQuery(const Job& job, OneQueryArgs& args);
  absl::Status AwaitOutcome(uint32_t number);

  const std::shared_ptr<GpuCore> core_;
  corpus::BackendFacts facts_;
  std::mutex search_mutex_;                     // held by the search that uses the workspace
  std::unique_ptr<corpus::Rotation> rotation_;  // guarded by search_mutex_, as is rotation_seed_
  uint64_t rotation_seed_ = 0;
  corpus::QueryEncoder encoder_;  // guarded by search_mutex_
  uint32_t launches_ = 0;         // of the one-query kernel
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_GPU_TOPK_ENGINE_H_
