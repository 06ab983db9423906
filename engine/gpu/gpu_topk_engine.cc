#include "engine/gpu/gpu_topk_engine.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/device_io.h"
#include "engine/gpu/gpu_device_memory.h"
#include "engine/gpu/memory/gpu_row_planes.h"
#include "engine/gpu/memory/gpu_tombstones.h"
#include "engine/gpu/path_choice.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/plan/scan_cost.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

using plan::ScanPath;

namespace {

// Takes memory of the arena. If there is too little, releases the columns of row terms and tries
// again.
template <typename Take>
auto TakeOrClear(GpuNumberColumns& columns, const Take& take) {
  auto taken = take();
  if (!absl::IsResourceExhausted(taken.status()) || !columns.Clear()) return taken;
  return take();
}

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
    : core_(std::move(core)),
      columns_(core_),
      row_search_(*core_),
      single_search_(*core_),
      batch_search_(*core_) {
  info_ = {.kind = BackendKind::kGpu,
           .device_name = core_->device_name(),
           .k_max = options.k_max,
           .batch_max = options.batch_max,
           .finished_rows_max = core_->engine_limits().result_keys_max,
           .scan = ScanPrecision::kInt8,
           .scan_dim_max = core_->codes_dim_max(),
           .row_terms = true,
           .read_bytes_per_second = core_->read_bytes_per_second()};
}

absl::StatusOr<std::unique_ptr<backend::RowPlanes>> GpuTopkEngine::Reserve(
    const backend::RowFormat& format, int64_t rows_max) {
  const int32_t dim_max = format.scan == ScanPrecision::kRows ? kDimMax : info_.scan_dim_max;
  ABSL_RETURN_IF_ERROR(CheckRange("dim", format.dim, 1, dim_max));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<GpuRowPlanes> planes, TakeOrClear(columns_, [&] {
                          return GpuRowPlanes::Reserve(core_, format, rows_max);
                        }));
  return std::unique_ptr<backend::RowPlanes>(std::move(planes));
}

absl::StatusOr<std::unique_ptr<backend::Tombstones>> GpuTopkEngine::MakeTombstones(
    const backend::RowPlanes& /*planes*/, std::vector<uint64_t> words) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<GpuTombstones> made,
                        TakeOrClear(columns_, [&] { return GpuTombstones::Make(core_, words); }));
  return std::unique_ptr<backend::Tombstones>(std::move(made));
}

absl::Status GpuTopkEngine::ForEachView(
    SearchJob& job, QuerySpan queries,
    absl::FunctionRef<absl::Status(SearchJob&, QuerySpan)> search) const {
  if (job.absent.empty() || queries.empty()) return search(job, queries);
  std::map<const backend::GenerationView*, std::vector<int64_t>> groups;
  const auto views_of = [&job](int64_t query) {
    return job.queries->views[static_cast<std::size_t>(query)];
  };
  for (const int64_t query : queries) groups[views_of(query).data()].push_back(query);
  SearchJob own = job;
  for (const auto& [views, of_views] : groups) {
    ABSL_RETURN_IF_ERROR(SetViews(*core_, views_of(of_views.front()), own));
    own.corpus = CorpusOf(own);
    ABSL_RETURN_IF_ERROR(search(own, of_views));
  }
  return absl::OkStatus();
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

absl::Status GpuTopkEngine::ScoreRows(SearchJob& job, QuerySpan queries, SearchOutput& out) {
  RowSearch* const row_search = &row_search_;  // for the lambda, under this lock
  return ForEachView(job, queries, [&](SearchJob& own, QuerySpan some) {
    return row_search->Search(own, some, out);
  });
}

absl::Status GpuTopkEngine::SearchRows(SearchJob& job, ScanPath path, QuerySpan queries,
                                       SearchOutput& out) {
  if (path == ScanPath::kRows) return ScoreRows(job, queries, out);
  BatchLeft left;
  ABSL_RETURN_IF_ERROR(SearchBatch(job, BatchSource::kRows, queries, out, left));
  return ScoreRows(job, left.overflowed, out);
}

absl::Status GpuTopkEngine::SearchCodes(SearchJob& job, QuerySpan queries, SearchOutput& out) {
  BatchLeft left;
  ABSL_RETURN_IF_ERROR(SearchBatch(job, BatchSource::kCodes, queries, out, left));
  const auto overflowed = static_cast<int64_t>(left.overflowed.size());
  out.cost.escalations.tighter += overflowed;
  if (overflowed > 0) {
    const ScanPath path =
        Fastest(*core_, job, RowPathsOf(*core_, job, overflowed), left.overflowed);
    if (PrefersRows(*core_, job, path, overflowed)) {
      out.cost.escalations.canonical += overflowed;
      ABSL_RETURN_IF_ERROR(SearchRows(job, path, left.overflowed, out));
    } else {
      left.singles.insert(left.singles.end(), left.overflowed.begin(), left.overflowed.end());
    }
  }
  std::sort(left.singles.begin(), left.singles.end());
  if (!core_->has_one_query_kernel()) {
    out.cost.escalations.canonical += static_cast<int64_t>(left.singles.size());
    return ScoreRows(job, left.singles, out);
  }
  RowSearch* const row_search = &row_search_;  // for the lambda, under this lock
  SingleSearch* const single_search = &single_search_;
  return ForEachView(job, left.singles, [&](SearchJob& own, QuerySpan some) -> absl::Status {
    if (own.scanned.empty()) return row_search->Search(own, some, out);
    std::vector<int64_t> of_rows;
    ABSL_RETURN_IF_ERROR(single_search->Search(own, some, out, of_rows));
    return row_search->Search(own, of_rows, out);
  });
}

absl::Status GpuTopkEngine::SearchTerms(SearchJob& job, QuerySpan queries, SearchOutput& out) {
  const auto count = static_cast<int64_t>(queries.size());
  const ScanPath path = PathOfTerms(*core_, job, count);
  ChooseListed(*core_, job, path, count);
  if (job.listed || path == ScanPath::kRows) return row_search_.Search(job, queries, out);
  BatchLeft left;
  ABSL_RETURN_IF_ERROR(SearchBatch(job, BatchSource::kCodes, queries, out, left));
  out.cost.escalations.tighter += static_cast<int64_t>(left.overflowed.size());
  left.singles.insert(left.singles.end(), left.overflowed.begin(), left.overflowed.end());
  std::sort(left.singles.begin(), left.singles.end());
  std::vector<int64_t> of_rows_left;
  ABSL_RETURN_IF_ERROR(single_search_.Search(job, left.singles, out, of_rows_left));
  return row_search_.Search(job, of_rows_left, out);
}

absl::Status GpuTopkEngine::RunTerms(SearchJob& job, QuerySpan queries, SearchOutput& out) {
  const backend::Views all = job.views;
  for (const backend::ViewGroup& group : backend::GroupByViews(all, *job.queries, queries)) {
    SearchJob own = job;
    ABSL_RETURN_IF_ERROR(SetViews(*core_, group.views, own));
    ABSL_RETURN_IF_ERROR(SearchTerms(own, group.queries, out));
  }
  return absl::OkStatus();
}

absl::Status GpuTopkEngine::RunTogether(SearchJob& job, absl::Span<const ScanPath> paths,
                                        QuerySpan queries, SearchOutput& out) {
  if (queries.empty()) return absl::OkStatus();
  ScanPath path = Fastest(*core_, job, paths, queries);
  if (job.absent.empty()) {
    ChooseListed(*core_, job, path, static_cast<int64_t>(queries.size()));
  }
  if (job.listed) path = ScanPath::kRows;
  const auto begin = std::chrono::steady_clock::now();
  absl::Status status = path == ScanPath::kCodes ? SearchCodes(job, queries, out)
                                                 : SearchRows(job, path, queries, out);
  if (job.device != nullptr) status.Update(core_->AwaitSearch());
  ABSL_RETURN_IF_ERROR(status);
  if (paths.size() > 1 && !job.listed && job.absent.empty() && !job.scanned.empty()) {
    const auto taken = std::chrono::steady_clock::now() - begin;
    RecordTime(*core_, job, path, queries,
               std::chrono::duration<double, std::micro>(taken).count());
  }
  return absl::OkStatus();
}

absl::Status GpuTopkEngine::RunViews(SearchJob& job, QuerySpan queries, SearchOutput& out) {
  std::vector<backend::ViewGroup> groups = backend::GroupByViews(job.views, *job.queries, queries);
  const std::vector<ScanPath> paths = SharedPathsOf(*core_, job, queries);
  const std::size_t alone = ChooseAlone(*core_, job, queries, paths, groups);
  std::vector<int64_t> together;
  for (std::size_t i = alone; i < groups.size(); ++i) {
    together.insert(together.end(), groups[i].queries.begin(), groups[i].queries.end());
  }
  std::sort(together.begin(), together.end());
  if (!together.empty()) {
    ABSL_RETURN_IF_ERROR(ShareViews(*core_, absl::MakeConstSpan(groups).subspan(alone), job));
    ABSL_RETURN_IF_ERROR(RunTogether(job, paths, together, out));
  }
  for (std::size_t i = 0; i < alone; ++i) {
    ABSL_RETURN_IF_ERROR(SetViews(*core_, groups[i].views, job));
    ABSL_RETURN_IF_ERROR(
        RunTogether(job, PathsOf(*core_, job, groups[i].queries), groups[i].queries, out));
  }
  return absl::OkStatus();
}

absl::Status GpuTopkEngine::Run(SearchJob& job, QuerySpan queries, backend::RankedLists& best,
                                backend::ScanCost* cost) {
  SearchOutput out = {.best = best, .cost = {}};
  const MutexLock lock(search_mutex_);
  ABSL_RETURN_IF_ERROR(core_->Bind());
  const auto begin = std::chrono::steady_clock::now();
  absl::Status status = !job.terms.empty() ? RunTerms(job, queries, out)
                        : job.queries->views.empty()
                            ? RunTogether(job, PathsOf(*core_, job, queries), queries, out)
                            : RunViews(job, queries, out);
  if (!status.ok()) {
    // The caller may free its memory then, and the next search uses the same buffers.
    status.Update(core_->AwaitSearch());
    return status;
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  out.cost.device_us = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
  if (cost != nullptr) *cost += out.cost;
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
  if (cost != nullptr) *cost = {};
  std::vector<int64_t> plain = AllQueries(job);
  if (tile.terms.empty()) return Run(job, plain, *best, cost);
  const auto first_with_terms = std::stable_partition(
      plain.begin(), plain.end(),
      [&tile](int64_t query) { return tile.terms[static_cast<std::size_t>(query)] == nullptr; });
  const std::vector<int64_t> with_terms(first_with_terms, plain.end());
  plain.erase(first_with_terms, plain.end());
  if (!plain.empty()) {
    SearchJob of_plain = job;
    ABSL_RETURN_IF_ERROR(Run(of_plain, plain, *best, cost));
  }
  for (QuerySpan queries = with_terms; !queries.empty();) {
    SearchJob of_terms = job;
    ABSL_ASSIGN_OR_RETURN(const std::size_t taken, TakeTerms(columns_, queries, of_terms));
    ABSL_RETURN_IF_ERROR(Run(of_terms, queries.first(taken), *best, cost));
    queries.remove_prefix(taken);
  }
  return absl::OkStatus();
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
  if (cost != nullptr) *cost = {};
  return Run(job, AllQueries(job), none, cost);
}

std::shared_ptr<float[]> GpuTopkEngine::TakeQueryMemory(int64_t count) {
  if (count > core_->query_memory().block_bytes() / int64_t{sizeof(float)}) return nullptr;
  PinnedLease lease = core_->query_memory().TryTake();
  if (lease == nullptr) return nullptr;
  auto* const values = reinterpret_cast<float*>(lease->host());
  return {std::move(lease), values};
}

absl::Status GpuTopkEngine::SendQueries(const float* values, int64_t count) {
  ABSL_RETURN_IF_ERROR(core_->Bind());
  return core_->query_memory().Send(values, count * int64_t{sizeof(float)});
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> GpuTopkEngine::TakeDeviceMemory(int64_t bytes) {
  ABSL_RETURN_IF_ERROR(core_->health().status());
  ABSL_RETURN_IF_ERROR(CheckRange("bytes", bytes, 1, std::numeric_limits<int64_t>::max()));
  const int64_t slabs_count = (bytes - 1) / core_->arena().slab_bytes() + 1;
  ABSL_ASSIGN_OR_RETURN(std::vector<char*> slabs, TakeOrClear(columns_, [&] {
                          return core_->arena().TakeAdjacentSlabs(slabs_count);
                        }));
  return std::make_unique<GpuDeviceMemory>(core_, std::move(slabs));
}

}  // namespace nearfield::gpu
