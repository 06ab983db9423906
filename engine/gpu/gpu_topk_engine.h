// GpuTopkEngine implements backend::Backend on a GPU: it creates row planes and tombstones, and
// picks the strategy of each search.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/base/mutex.h"
#include "engine/gpu/batch_search.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/memory/gpu_number_columns.h"
#include "engine/gpu/row_search.h"
#include "engine/gpu/search_job.h"
#include "engine/gpu/single_search.h"

namespace nearfield::gpu {

class GpuTopkEngine : public backend::Backend {
 public:
  GpuTopkEngine(std::shared_ptr<GpuCore> core, const GpuOptions& options);

  const backend::BackendInfo& info() const override { return info_; }
  absl::StatusOr<int64_t> DeviceBytesOf(const backend::RowFormat& format,
                                        int64_t rows_max) const override {
    return GpuRowPlanes::DeviceBytesOf(*core_, format, rows_max);
  }
  absl::StatusOr<std::unique_ptr<backend::RowPlanes>> Reserve(const backend::RowFormat& format,
                                                              int64_t rows_max) override;
  absl::StatusOr<std::unique_ptr<backend::Tombstones>> MakeTombstones(
      const backend::RowPlanes& planes, std::vector<uint64_t> words) override;
  absl::Status Search(const backend::RowFormat& format,
                      absl::Span<const backend::GenerationView> generations,
                      const backend::QueryTile& tile, backend::RankedLists* best,
                      backend::ScanCost* cost) override;
  std::shared_ptr<float[]> TakeQueryMemory(int64_t count) override;
  absl::Status SendQueries(const float* values, int64_t count) override;
  absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(int64_t bytes) override;
  absl::Status SearchOnDevice(const backend::RowFormat& format,
                              absl::Span<const backend::GenerationView> generations,
                              const backend::DeviceTile& tile, backend::QueryFault* fault,
                              backend::ScanCost* cost) override;
  int64_t device_bytes_total() const override { return core_->arena().bytes_total(); }
  // Without the numbers of row terms, which give way to rows.
  int64_t device_bytes_used() const override {
    return core_->arena().bytes_used() - columns_.device_bytes();
  }
  int64_t host_rows_bytes_total() const override { return core_->host_rows().bytes_total(); }
  int64_t host_rows_bytes_used() const override { return core_->host_rows().bytes_used(); }
  absl::Status Health() const override { return core_->health().status(); }

 private:
  // Answers some queries of a job: all of them have row terms on the device, or none. Adds the
  // cost, if `cost` is not null.
  absl::Status Run(SearchJob& job, QuerySpan queries, backend::RankedLists& best,
                   backend::ScanCost* cost);
  // Answers queries that see the same rows, or that share passes (ShareViews).
  absl::Status RunTogether(SearchJob& job, absl::Span<const plan::ScanPath> paths,
                           QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // Answers queries of a tile with views: those of some filters on their own, and the others
  // together, whatever is faster.
  absl::Status RunViews(SearchJob& job, QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // Calls search(job, queries) for parts of the queries that see the same rows, with a job that
  // sees these, for paths that queries with different rows do not share.
  absl::Status ForEachView(SearchJob& job, QuerySpan queries,
                           absl::FunctionRef<absl::Status(SearchJob&, QuerySpan)> search) const;
  // Answers queries from codes: as a batch, the remaining ones one by one. Those that had too many
  // candidates are answered from the rows.
  absl::Status SearchCodes(SearchJob& job, QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // Scores every row that each of the queries sees.
  absl::Status ScoreRows(SearchJob& job, QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // Answers queries from the rows, on one of RowPathsOf.
  absl::Status SearchRows(SearchJob& job, plan::ScanPath path, QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // Answers queries with row terms.
  absl::Status RunTerms(SearchJob& job, QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // The same for queries that see the same rows: one by one from codes, or from the rows.
  absl::Status SearchTerms(SearchJob& job, QuerySpan queries, SearchOutput& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);
  // Answers queries as a batch. If few of them had too many candidates, tries these again.
  absl::Status SearchBatch(SearchJob& job, BatchSource source, QuerySpan queries, SearchOutput& out,
                           BatchLeft& left) ABSL_EXCLUSIVE_LOCKS_REQUIRED(search_mutex_);

  const std::shared_ptr<GpuCore> core_;
  backend::BackendInfo info_;
  GpuNumberColumns columns_;
  Mutex search_mutex_;  // held by the search that uses the workspace of the core
  RowSearch row_search_ ABSL_GUARDED_BY(search_mutex_);
  SingleSearch single_search_ ABSL_GUARDED_BY(search_mutex_);
  BatchSearch batch_search_ ABSL_GUARDED_BY(search_mutex_);
};

}  // namespace nearfield::gpu
