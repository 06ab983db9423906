#include "engine/gpu/gpu_topk_engine.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/memory/gpu_tombstones.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

GpuTopkEngine::GpuTopkEngine(std::shared_ptr<GpuCore> core, const GpuOptions& options)
    : core_(std::move(core)) {
  facts_ = {.kind = BackendKind::kGpu,
            .device_name = core_->device_name(),
            .k_max = options.k_max,
            .batch_max = options.batch_max,
            .scan = ScanPrecision::kInt8,
            .read_bytes_per_second = core_->read_bytes_per_second()};
}

absl::StatusOr<std::unique_ptr<corpus::RowPlanes>> GpuTopkEngine::Reserve(
    const corpus::RowFormat& format, int64_t rows_max) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<GpuRowPlanes> planes,
                        GpuRowPlanes::Reserve(core_, format, rows_max));
  return std::unique_ptr<corpus::RowPlanes>(std::move(planes));
}

absl::StatusOr<std::unique_ptr<corpus::Tombstones>> GpuTopkEngine::MakeTombstones(
    std::vector<uint64_t> words) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<GpuTombstones> made,
                        GpuTombstones::Make(core_, std::move(words)));
  return std::unique_ptr<corpus::Tombstones>(std::move(made));
}

absl::StatusOr<GpuTopkEngine::Job> GpuTopkEngine::MakeJob(
    const corpus::RowFormat& format, absl::Span<const corpus::GenerationView> generations,
    const corpus::QueryTile& tile) const {
  if (generations.size() > static_cast<std::size_t>(kGenerationsMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("generations: ", generations.size(), ", at most ", kGenerationsMax));
  }
  if (format.dim < 1 || format.dim > kDimMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim = ", format.dim, ", must be 1 .. ", kDimMax));
  }
  if (tile.k.size() > static_cast<std::size_t>(facts_.batch_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries: ", tile.k.size(), ", at most ", facts_.batch_max));
  }
  for (std::size_t query = 0; query < tile.k.size(); ++query) {
    if (tile.k[query] < 1 || tile.k[query] > facts_.k_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("query ", query, ": k = ", tile.k[query], ", must be 1 .. ", facts_.k_max));
    }
  }
  Job job = {.format = format, .shape = RowShapeOf(format.dim), .queries = &tile};
  for (const corpus::GenerationView& generation : generations) {
    const auto* const planes = dynamic_cast<const GpuRowPlanes*>(generation.planes);
    const auto* const tombstones = dynamic_cast<const GpuTombstones*>(generation.tombstones);
    if (planes == nullptr || planes->core() != core_.get() || !planes->sealed() ||
        planes->format().dim != format.dim || planes->format().row_type != format.row_type ||
        planes->format().metric != format.metric || planes->format().scan != format.scan ||
        planes->format().rows != format.rows) {
      return absl::InvalidArgumentError("a generation of another backend or format, or not sealed");
    }
    if (generation.tombstones != nullptr &&
        (tombstones == nullptr || tombstones->core() != core_.get())) {
      return absl::InvalidArgumentError("tombstones of another backend");
    }
    job.planes.push_back(planes);
    job.tombstones.push_back(tombstones == nullptr ? TombstoneView{} : tombstones->view());
    job.live_slots.push_back(tombstones == nullptr ? SlotList{} : tombstones->live_slots());
    SlotList& live = job.live_slots.back();
    live.count = std::min(live.count, generation.rows_live);
    job.rows.push_back(generation.rows_live > 0 ? planes->rows_count() : 0);
    if (job.rows.back() > 0) job.scanned.push_back(static_cast<int64_t>(job.rows.size()) - 1);
  }
  return job;
}

void GpuTopkEngine::ChooseListed(Job& job) const {
  // Rows in host memory are read one by one at the speed of the link.
  if (job.scanned.empty() || job.format.rows != RowHome::kDevice) return;
  int64_t listed = 0;
  for (const int64_t g : job.scanned) {
    const SlotList& live = job.live_slots[static_cast<std::size_t>(g)];
    if (live.empty()) return;
    listed += live.count;
  }
  const plan::ScanWork all = WorkOf(job, static_cast<int64_t>(job.queries->k.size()));
  plan::ScanWork some = all;
  some.rows = listed;
  const double all_time = ScansCodes(job) ? plan::CodeScanTime(all) : plan::RowScanTime(all);
  if (plan::RowScanTime(some) >= all_time) return;
  job.listed = true;
  for (const int64_t g : job.scanned) {
    job.rows[static_cast<std::size_t>(g)] = job.live_slots[static_cast<std::size_t>(g)].count;
  }
}

plan::SearchPlan GpuTopkEngine::PlanTile(const Job& job, int64_t first_query,
                                         int64_t queries) const {
  const absl::Span<const int32_t> k = job.queries->k.subspan(static_cast<std::size_t>(first_query),
                                                             static_cast<std::size_t>(queries));
  const plan::SearchShape shape = {.dim_padded = job.shape.padded,
                                   .queries = static_cast<int32_t>(k.size()),
                                   .k = *std::max_element(k.begin(), k.end()),
                                   .rows = job.rows};
  return plan::PlanSearch(shape, core_->device_facts(), core_->engine_facts());
}

absl::Status GpuTopkEngine::SearchRows(const Job& job, int64_t first_query, int64_t queries,
                                       corpus::RankedLists& best, corpus::ScanCost& cost) {
  const auto& cancelled = job.queries->cancelled;
  const int64_t end = first_query + queries;
  for (int64_t first = first_query; first < end;) {
    if (cancelled && cancelled()) return absl::CancelledError("the search was cancelled");
    const plan::SearchPlan plan = PlanTile(job, first, end - first);
    ABSL_RETURN_IF_ERROR(RunTile(job, plan, first));
    TakeResults(job, plan, first, best, cost);
    first += plan.queries;
  }
  return absl::OkStatus();
}

absl::Status GpuTopkEngine::Search(const corpus::RowFormat& format,
                                   absl::Span<const corpus::GenerationView> generations,
                                   const corpus::QueryTile& tile, corpus::RankedLists* best,
                                   corpus::ScanCost* cost) {
  ABSL_ASSIGN_OR_RETURN(Job job, MakeJob(format, generations, tile));
  ChooseListed(job);
  best->Reset(tile.k, generations.size());
  corpus::ScanCost sum;
  const std::lock_guard<std::mutex> lock(search_mutex_);
  ABSL_RETURN_IF_ERROR(core_->Bind());
  const auto begin = std::chrono::steady_clock::now();
  const auto queries = static_cast<int64_t>(tile.k.size());
  if (!job.listed && ScansCodes(job)) {
    ABSL_RETURN_IF_ERROR(SearchCodes(job, *best, sum));
  } else {
    ABSL_RETURN_IF_ERROR(SearchRows(job, 0, queries, *best, sum));
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  sum.device_us = std::chrono::duration_cast<std::chrono::microseconds>(taken).count();
  if (cost != nullptr) *cost = sum;
  return absl::OkStatus();
}

}  // namespace nearfield::gpu
