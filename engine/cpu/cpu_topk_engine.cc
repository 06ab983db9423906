#include "engine/cpu/cpu_topk_engine.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check_range.h"
#include "engine/base/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/group_search.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/listed_search.h"
#include "engine/cpu/query_split.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {
namespace {

// Measured: at this dimension and above, a code scan is faster for every number of rows and
// queries. Below it one query is not faster, and codes would take more than half of the rows'
// memory.
constexpr int32_t kCodesDimMin = 32;

int64_t MicrosSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start)
      .count();
}

class CpuTopkEngine : public backend::Backend {
 public:
  CpuTopkEngine(const CpuOptions& options, int32_t threads_count, const ScanKernels& kernels)
      : kernels_(kernels),
        budget_(MemoryBudget::Make(options.memory_bytes, "row memory")),
        threads_(std::make_shared<SharedThreads>(threads_count)),
        workspace_(threads_count),
        group_search_({&threads_->pool, &kernels_, &workspace_}) {
    info_.kind = BackendKind::kCpu;
    info_.device_name = absl::StrCat(kernels.name, " (", threads_count,
                                     threads_count == 1 ? " thread)" : " threads)");
    info_.k_max = options.k_max;
    info_.batch_max = options.batch_max;
    info_.scan = ScanPrecision::kInt8;
    info_.scan_dim_min = kCodesDimMin;
    info_.row_terms = true;
  }

  const backend::BackendInfo& info() const override { return info_; }

  absl::StatusOr<int64_t> DeviceBytesOf(const backend::RowFormat& format,
                                        int64_t rows_max) const override {
    return CpuRowPlanes::BytesNeeded(format, rows_max);
  }

  absl::StatusOr<std::unique_ptr<backend::RowPlanes>> Reserve(const backend::RowFormat& format,
                                                              int64_t rows_max) override {
    return CpuRowPlanes::Reserve(format, rows_max, {budget_, threads_, &kernels_});
  }

  absl::StatusOr<std::unique_ptr<backend::Tombstones>> MakeTombstones(
      const backend::RowPlanes& /*planes*/, std::vector<uint64_t> words) override {
    const auto bytes = static_cast<int64_t>(words.size() * sizeof(uint64_t));
    ABSL_ASSIGN_OR_RETURN(MemoryReservation share, budget_->Reserve(bytes));
    return std::make_unique<CpuTombstones>(std::move(words), std::move(share));
  }

  absl::Status Search(const backend::RowFormat& format,
                      absl::Span<const backend::GenerationView> generations,
                      const backend::QueryTile& tile, backend::RankedLists* best,
                      backend::ScanCost* cost) override;

  int64_t device_bytes_total() const override { return budget_->bytes_total(); }
  int64_t device_bytes_used() const override { return budget_->bytes_used(); }
  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  absl::Status Check(const backend::RowFormat& format,
                     absl::Span<const backend::GenerationView> generations,
                     const backend::QueryTile& tile) const;
  absl::Status SearchPart(const backend::RowFormat& format, const QueryPart& part,
                          backend::RankedLists* best, backend::ScanCost* cost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(threads_->turn);

  const ScanKernels& kernels_;
  backend::BackendInfo info_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<SharedThreads> threads_;
  Workspace workspace_ ABSL_GUARDED_BY(threads_->turn);
  GroupSearch group_search_ ABSL_GUARDED_BY(threads_->turn);
  QueryPicker picker_ ABSL_GUARDED_BY(threads_->turn);
};

absl::Status CpuTopkEngine::Check(const backend::RowFormat& format,
                                  absl::Span<const backend::GenerationView> generations,
                                  const backend::QueryTile& tile) const {
  ABSL_RETURN_IF_ERROR(
      CheckRange("queries", static_cast<int64_t>(tile.k.size()), 0, info_.batch_max));
  for (size_t q = 0; q < tile.k.size(); ++q) {
    if (tile.k[q] < 1 || tile.k[q] > info_.k_max) {
      return RangeError(absl::StrCat("queries[", q, "].k"), tile.k[q], 1, info_.k_max);
    }
  }
  if (!tile.terms.empty() && tile.terms.size() != tile.k.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("terms of ", tile.terms.size(), " queries for ", tile.k.size(), " queries"));
  }
  for (const backend::GenerationView& view : generations) {
    const auto& planes = static_cast<const CpuRowPlanes&>(*view.planes);
    if (!planes.Answers(format)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a generation of dim = ", planes.format().dim, " searched as dim = ", format.dim,
          ", or as another row type, or by codes that it lacks"));
    }
    if (!planes.sealed()) return absl::FailedPreconditionError("a generation is not sealed");
    if (view.tombstones != nullptr &&
        static_cast<int64_t>(view.tombstones->words().size()) * 64 < planes.rows_count()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tombstones: ", view.tombstones->words().size(), " words for ",
                       planes.rows_count(), " rows"));
    }
  }
  return absl::OkStatus();
}

absl::Status CpuTopkEngine::SearchPart(const backend::RowFormat& format, const QueryPart& part,
                                       backend::RankedLists* best, backend::ScanCost* cost) {
  const backend::QueryTile& tile = *part.tile;
  if (tile.views.empty() &&
      PrefersListed(format, part.generations, tile.k, threads_->pool.threads_count())) {
    return SearchListed({&threads_->pool, &kernels_, &workspace_}, format, part, best, cost);
  }
  for (size_t first = 0; first < tile.k.size();) {
    const absl::Span<const int32_t> rest = tile.k.subspan(first);
    const auto count = static_cast<size_t>(GroupSearch::QueriesTogether(format, rest));
    const auto some = [&](auto of_queries) {
      return of_queries.empty() ? of_queries : of_queries.subspan(first, count);
    };
    const GroupSearch::Task task = {
        .format = format,
        .generations = part.generations,
        .queries = tile.queries + static_cast<int64_t>(first) * format.dim,
        .k = some(tile.k),
        .terms = some(tile.terms),
        .views = some(tile.views),
        .places = some(part.places),
        .cancelled = &tile.cancelled};
    ABSL_RETURN_IF_ERROR(group_search_.Run(task, best, cost));
    first += count;
  }
  return absl::OkStatus();
}

absl::Status CpuTopkEngine::Search(const backend::RowFormat& format,
                                   absl::Span<const backend::GenerationView> generations,
                                   const backend::QueryTile& tile, backend::RankedLists* best,
                                   backend::ScanCost* cost) {
  ABSL_RETURN_IF_ERROR(Check(format, generations, tile));
  threads_->RecordSearch();
  const MutexLock turn(threads_->turn);
  const auto start = std::chrono::steady_clock::now();
  *cost = {};
  best->Reset(tile.k, generations.size());
  if (tile.views.empty()) {
    ABSL_RETURN_IF_ERROR(SearchPart(format, picker_.All(generations, tile), best, cost));
  } else {
    const GenerationScan::Context context = {&threads_->pool, &kernels_, &workspace_};
    for (const QuerySet& set : SplitQueries(format, generations, tile, context)) {
      ABSL_RETURN_IF_ERROR(SearchPart(format, picker_.Pick(tile, format.dim, set), best, cost));
    }
  }
  cost->device_us = MicrosSince(start);
  threads_->RecordSearch();
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CpuInstructionSets() {
  std::vector<std::string> names;
  for (const ScanKernels* kernels : SupportedScanKernels()) names.emplace_back(kernels->name);
  return names;
}

absl::StatusOr<std::unique_ptr<backend::Backend>> MakeCpuTopkEngine(const CpuOptions& options) {
  constexpr int32_t kThreadsMax = 1024;
  ABSL_RETURN_IF_ERROR(CheckRange("memory_bytes", options.memory_bytes, 1, INT64_MAX));
  ABSL_RETURN_IF_ERROR(CheckRange("threads", options.threads, 0, kThreadsMax));
  ABSL_RETURN_IF_ERROR(CheckRange("k_max", options.k_max, 1, kKMax + 1));
  ABSL_RETURN_IF_ERROR(CheckRange("batch_max", options.batch_max, 1, 65'536));
  const std::vector<const ScanKernels*>& supported = SupportedScanKernels();
  const auto found =
      options.instruction_set.empty()
          ? supported.begin()
          : std::find_if(supported.begin(), supported.end(), [&](const ScanKernels* kernels) {
              return options.instruction_set == kernels->name;
            });
  if (found == supported.end()) {
    return absl::InvalidArgumentError(absl::StrCat("instruction_set = ", options.instruction_set,
                                                   ", this CPU has ",
                                                   absl::StrJoin(CpuInstructionSets(), ", ")));
  }
  const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  const int32_t threads =
      options.threads != 0 ? options.threads : std::clamp(cores, 1, kThreadsMax);
  return std::make_unique<CpuTopkEngine>(options, threads, **found);
}

}  // namespace nearfield::cpu
