#include "engine/gpu/gpu_topk_engine.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>

#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/device_io.h"
#include "engine/gpu/memory/gpu_row_planes.h"
#include "engine/gpu/memory/gpu_tombstones.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/plan/scan_cost.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

using plan::ScanPath;

namespace {

// Returns what earlier searches of the largest generation taught. Requires: a generation to scan.
plan::PathCosts& CostsOf(const SearchJob& job) {
  const int64_t largest =
      *std::max_element(job.scanned.begin(), job.scanned.end(), [&job](int64_t a, int64_t b) {
        return job.rows[static_cast<std::size_t>(a)] < job.rows[static_cast<std::size_t>(b)];
      });
  return job.planes[static_cast<std::size_t>(largest)]->path_costs();
}

// Adjacent slabs of the arena that a caller of the engine holds.
class GpuDeviceMemory final : public DeviceMemory {
 public:
  GpuDeviceMemory(std::shared_ptr<GpuCore> core, std::vector<char*> slabs)
      : core_(std::move(core)), slabs_(std::move(slabs)) {}
  ~GpuDeviceMemory() override {
    const CurrentDevice restored;
    // A kernel of the caller may still read the memory. After an error the device is lost, and no
    // slab is taken again.
    if (core_->Bind().ok()) {
      core_->health().Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize").IgnoreError();
    }
    core_->arena().Release(slabs_);
  }
  GpuDeviceMemory(const GpuDeviceMemory&) = delete;
  GpuDeviceMemory& operator=(const GpuDeviceMemory&) = delete;

  char* data() const override { return slabs_.front(); }
  int64_t bytes() const override {
    return static_cast<int64_t>(slabs_.size()) * core_->arena().slab_bytes();
  }

 private:
  const std::shared_ptr<GpuCore> core_;
  const std::vector<char*> slabs_;
};

// The answers of a search with fewer queries and fewer rows are copied, so that they keep no memory
// of the pool.
constexpr int64_t kQueriesToLendMin = 64;
constexpr int64_t kRowsToLendMin = 512;

// Returns true if answers of a search for the host may be merged on the device.
bool WantsMerge(const backend::QueryTile& tile) {
  if (tile.finish == backend::Finish::kNone || tile.k.empty()) return false;
  const int64_t k_max = *std::max_element(tile.k.begin(), tile.k.end());
  return tile.finish == backend::Finish::kAll ||
         SearchJob::WorthMerging(static_cast<int64_t>(tile.k.size()), k_max);
}

}  // namespace

GpuTopkEngine::GpuTopkEngine(std::shared_ptr<GpuCore> core, const GpuOptions& options)
    : core_(std::move(core)), row_search_(*core_), single_search_(*core_), batch_search_(*core_) {
  info_ = {.kind = BackendKind::kGpu,
           .device_name = core_->device_name(),
           .k_max = options.k_max,
           .batch_max = options.batch_max,
           .finished_rows_max = core_->engine_limits().result_keys_max,
           .scan = ScanPrecision::kInt8,
           .scan_dim_max = core_->codes_dim_max(),
           .read_bytes_per_second = core_->read_bytes_per_second()};
}

absl::StatusOr<std::unique_ptr<backend::RowPlanes>> GpuTopkEngine::Reserve(
    const backend::RowFormat& format, int64_t rows_max) {
  const int32_t dim_max = format.scan == ScanPrecision::kRows ? kDimMax : info_.scan_dim_max;
  ABSL_RETURN_IF_ERROR(CheckRange("dim", format.dim, 1, dim_max));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<GpuRowPlanes> planes,
                        GpuRowPlanes::Reserve(core_, format, rows_max));
  return std::unique_ptr<backend::RowPlanes>(std::move(planes));
}

absl::StatusOr<std::unique_ptr<backend::Tombstones>> GpuTopkEngine::MakeTombstones(
    const backend::RowPlanes& /*planes*/, std::vector<uint64_t> words) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<GpuTombstones> made,
                        GpuTombstones::Make(core_, std::move(words)));
  return std::unique_ptr<backend::Tombstones>(std::move(made));
}

void GpuTopkEngine::AddRowPaths(const SearchJob& job, int64_t queries,
                                std::vector<ScanPath>& paths) const {
  paths.push_back(ScanPath::kRows);
  const bool on_device = job.format.rows == RowPlacement::kDevice;
  if (queries > 1 && on_device && BatchServesRows(*core_, job)) {
    paths.push_back(ScanPath::kRowBatch);
  }
}

std::vector<ScanPath> GpuTopkEngine::PathsOf(const SearchJob& job) const {
  // The bounds use the memory of the row scan's keys: two bounds fit in the place of one key.
  const int64_t row_index_end = RowIndexEnd(job);
  const bool has_codes =
      job.format.scan != ScanPrecision::kRows && row_index_end > 0 &&
      row_index_end <= std::min<int64_t>(2 * core_->engine_limits().keys_max, kRowsMax);
  if (has_codes && !job.format.may_scan_rows) return {ScanPath::kCodes};
  std::vector<ScanPath> paths;
  if (has_codes &&
      (core_->has_one_query_kernel() || core_->BatchServes(job.format.dim, LargestK(job)))) {
    paths.push_back(ScanPath::kCodes);
  }
  AddRowPaths(job, job.queries_count(), paths);
  return paths;
}

ScanPath GpuTopkEngine::Fastest(const SearchJob& job, absl::Span<const ScanPath> paths,
                                int64_t queries) const {
  if (paths.size() == 1) return paths.front();
  return CostsOf(job).Fastest(paths, WorkOf(*core_, job, queries), LargestK(job));
}

void GpuTopkEngine::ChooseListed(SearchJob& job, ScanPath otherwise) const {
  // Rows in host memory are read one by one at the speed of the link.
  if (job.scanned.empty() || job.format.rows != RowPlacement::kDevice) return;
  int64_t listed = 0;
  for (const int64_t g : job.scanned) {
    const SlotList& live = job.live_slots[static_cast<std::size_t>(g)];
    if (live.empty()) return;
    listed += live.count;
  }
  const plan::ScanWork all = WorkOf(*core_, job, job.queries_count());
  plan::ScanWork some = all;
  some.rows = listed;
  if (ScanTime(ScanPath::kRows, some) >= ScanTime(otherwise, all)) return;
  job.listed = true;
  for (const int64_t g : job.scanned) {
    job.rows[static_cast<std::size_t>(g)] = job.live_slots[static_cast<std::size_t>(g)].count;
  }
}

bool GpuTopkEngine::PrefersRows(const SearchJob& job, ScanPath path, int64_t queries) const {
  if (job.format.rows != RowPlacement::kDevice) return false;
  return ScanTime(path, WorkOf(*core_, job, queries)) <
         static_cast<double>(queries) * ScanTime(ScanPath::kCodes, WorkOf(*core_, job, 1));
}

absl::Status GpuTopkEngine::SearchBatch(SearchJob& job, BatchSource source, QuerySpan queries,
                                        SearchOutput& out, BatchLeft& left) {
  job.corpus = CorpusOf(job);
  BatchLeft first;
  ABSL_RETURN_IF_ERROR(batch_search_.Search(job, {.source = source}, queries, out, first));
  left.singles = std::move(first.singles);
  if (2 * first.overflowed.size() > queries.size()) {
    left.overflowed = std::move(first.overflowed);
    return absl::OkStatus();
  }
  // Few had too many candidates, so the bounds suit the data and there is room for longer queues.
  return batch_search_.Search(job, {.source = source, .long_queues = true}, first.overflowed, out,
                              left);
}

absl::Status GpuTopkEngine::SearchRows(SearchJob& job, ScanPath path, QuerySpan queries,
                                       SearchOutput& out) {
  if (path == ScanPath::kRows) return row_search_.Search(job, queries, out);
  BatchLeft left;
  ABSL_RETURN_IF_ERROR(SearchBatch(job, BatchSource::kRows, queries, out, left));
  return row_search_.Search(job, left.overflowed, out);
}

absl::Status GpuTopkEngine::SearchCodes(SearchJob& job, QuerySpan queries, SearchOutput& out) {
  BatchLeft left;
  ABSL_RETURN_IF_ERROR(SearchBatch(job, BatchSource::kCodes, queries, out, left));
  const auto overflowed = static_cast<int64_t>(left.overflowed.size());
  out.cost.escalations.tighter += overflowed;
  if (overflowed > 0) {
    std::vector<ScanPath> paths;
    AddRowPaths(job, overflowed, paths);
    const ScanPath path = Fastest(job, paths, overflowed);
    if (PrefersRows(job, path, overflowed)) {
      out.cost.escalations.canonical += overflowed;
      ABSL_RETURN_IF_ERROR(SearchRows(job, path, left.overflowed, out));
    } else {
      left.singles.insert(left.singles.end(), left.overflowed.begin(), left.overflowed.end());
    }
  }
  std::vector<int64_t> of_rows;
  if (core_->has_one_query_kernel()) {
    ABSL_RETURN_IF_ERROR(single_search_.Search(job, left.singles, out, of_rows));
  } else {
    of_rows = std::move(left.singles);
    out.cost.escalations.canonical += static_cast<int64_t>(of_rows.size());
  }
  return row_search_.Search(job, of_rows, out);
}

absl::Status GpuTopkEngine::Run(SearchJob& job, backend::RankedLists& best,
                                backend::ScanCost* cost) {
  const std::vector<ScanPath> paths = PathsOf(job);
  const int64_t queries = job.queries_count();
  ScanPath path = queries == 0 ? paths.front() : Fastest(job, paths, queries);
  ChooseListed(job, path);
  if (job.listed) path = ScanPath::kRows;
  SearchOutput out = {.best = best, .cost = {}};
  const MutexLock lock(search_mutex_);
  ABSL_RETURN_IF_ERROR(core_->Bind());
  const auto begin = std::chrono::steady_clock::now();
  absl::Status status = path == ScanPath::kCodes ? SearchCodes(job, AllQueries(job), out)
                                                 : SearchRows(job, path, AllQueries(job), out);
  if (job.device != nullptr || !status.ok()) {
    // Also after an error: the caller may free its memory then, and the next search uses the same
    // buffers.
    status.Update(core_->health().Check(cudaStreamSynchronize(core_->workspace().stream.get()),
                                        "cudaStreamSynchronize"));
  }
  ABSL_RETURN_IF_ERROR(status);
  const auto taken = std::chrono::steady_clock::now() - begin;
  out.cost.device_us = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
  if (paths.size() > 1 && !job.listed && !job.scanned.empty() && queries > 0) {
    CostsOf(job).Record(path, WorkOf(*core_, job, queries), LargestK(job),
                        static_cast<double>(out.cost.device_us));
  }
  if (cost != nullptr) *cost = out.cost;
  return absl::OkStatus();
}

absl::Status GpuTopkEngine::Search(const backend::RowFormat& format,
                                   absl::Span<const backend::GenerationView> generations,
                                   const backend::QueryTile& tile, backend::RankedLists* best,
                                   backend::ScanCost* cost) {
  ABSL_ASSIGN_OR_RETURN(SearchJob job, MakeJob(*core_, info_, {format, generations, tile}));
  best->Reset(tile.k, generations.size());
  if (format.numeric_ids && WantsMerge(tile)) {
    // Before the device is locked: the memory may be with a caller that waits for the device. Only
    // a search that must finish waits for memory: others have lists.
    bool last = false;
    PinnedLease memory = tile.finish == backend::Finish::kAll ? core_->answers().Take(&last)
                                                              : core_->answers().TryTake(&last);
    if (memory != nullptr) {
      PlaceOnHost(*memory, job);
      const AnswerPlace& end = job.places.back();
      const bool many =
          job.queries_count() >= kQueriesToLendMin || int64_t{end.begin} + end.k >= kRowsToLendMin;
      best->Hold(std::move(memory), many && !last);
    }
  }
  return Run(job, *best, cost);
}

absl::Status GpuTopkEngine::SearchOnDevice(const backend::RowFormat& format,
                                           absl::Span<const backend::GenerationView> generations,
                                           const backend::DeviceTile& tile,
                                           backend::QueryFault* fault, backend::ScanCost* cost) {
  ABSL_RETURN_IF_ERROR(CheckRange("queries_count", tile.queries_count, 1, info_.batch_max));
  const std::vector<int32_t> k(static_cast<std::size_t>(tile.queries_count), tile.k);
  const backend::QueryTile queries = {.k = k, .cancelled = tile.cancelled};
  ABSL_ASSIGN_OR_RETURN(SearchJob job, MakeJob(*core_, info_, {format, generations, queries}));
  if (!format.numeric_ids) return absl::InvalidArgumentError("ids: they are not numbers");
  PlaceOnDevice(tile, job);
  job.fault = fault;
  const CurrentDevice restored;
  ABSL_RETURN_IF_ERROR(core_->Bind());
  ABSL_RETURN_IF_ERROR(BeginOnDevice(*core_, tile));
  backend::RankedLists none;
  return Run(job, none, cost);
}

std::shared_ptr<float[]> GpuTopkEngine::TakeQueryMemory(int64_t count) {
  if (count > core_->query_memory().block_bytes() / int64_t{sizeof(float)}) return nullptr;
  bool last = false;
  PinnedLease lease = core_->query_memory().TryTake(&last);
  if (lease == nullptr) return nullptr;
  auto* const values = reinterpret_cast<float*>(lease->host());
  return {std::move(lease), values};
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> GpuTopkEngine::TakeDeviceMemory(int64_t bytes) {
  ABSL_RETURN_IF_ERROR(core_->health().status());
  ABSL_RETURN_IF_ERROR(CheckRange("bytes", bytes, 1, std::numeric_limits<int64_t>::max()));
  ABSL_ASSIGN_OR_RETURN(
      std::vector<char*> slabs,
      core_->arena().TakeAdjacentSlabs((bytes - 1) / core_->arena().slab_bytes() + 1));
  return std::make_unique<GpuDeviceMemory>(core_, std::move(slabs));
}

}  // namespace nearfield::gpu
