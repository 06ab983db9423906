#include "engine/cpu/cpu_topk_engine.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/generation_scan.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/scan_kernels.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {
namespace {

// Limits of a group of queries scanned together: their packed form, and the keys that each thread
// collects for them.
constexpr int64_t kGroupQueryBytesMax = int64_t{8} << 20;
constexpr int64_t kGroupKeyBytesMax = int64_t{16} << 20;

int64_t MicrosSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start)
      .count();
}

class CpuTopkEngine : public corpus::Backend {
 public:
  CpuTopkEngine(const CpuOptions& options, int32_t threads_count, const ScanKernels& kernels)
      : kernels_(kernels),
        budget_(std::make_shared<MemoryBudget>(options.memory_bytes)),
        threads_(std::make_shared<SharedThreads>(threads_count)),
        workspace_(threads_count) {
    facts_.kind = BackendKind::kCpu;
    facts_.device_name = absl::StrCat(kernels.name, " (", threads_count,
                                      threads_count == 1 ? " thread)" : " threads)");
    facts_.k_max = options.k_max;
    facts_.batch_max = options.batch_max;
  }

  const corpus::BackendFacts& facts() const override { return facts_; }

  absl::StatusOr<std::unique_ptr<corpus::RowPlanes>> Reserve(const corpus::RowFormat& format,
                                                             int64_t rows_max) override {
    return CpuRowPlanes::Reserve(format, rows_max, {budget_, threads_, &kernels_});
  }

  absl::StatusOr<std::unique_ptr<corpus::Tombstones>> MakeTombstones(
      std::vector<uint64_t> words) override {
    const auto bytes = static_cast<int64_t>(words.size() * sizeof(uint64_t));
    ABSL_ASSIGN_OR_RETURN(BudgetShare share, BudgetShare::Take(budget_, bytes));
    return std::make_unique<CpuTombstones>(std::move(words), std::move(share));
  }

  absl::StatusOr<corpus::BestRows> Search(const corpus::RowFormat& format,
                                          absl::Span<const corpus::GenerationView> generations,
                                          const corpus::QueryTile& tile,
                                          corpus::ScanCost* cost) override;

  int64_t device_bytes_total() const override { return budget_->bytes_total(); }
  int64_t device_bytes_used() const override { return budget_->bytes_used(); }
  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  absl::Status Check(const corpus::RowFormat& format,
                     absl::Span<const corpus::GenerationView> generations,
                     const corpus::QueryTile& tile) const;
  // Packs queries for the scan; threads_->turn is held.
  void PackQueries(const corpus::RowFormat& format, const float* queries, int32_t count);

  const ScanKernels& kernels_;
  corpus::BackendFacts facts_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<SharedThreads> threads_;
  Workspace workspace_;  // guarded by threads_->turn
};

absl::Status CpuTopkEngine::Check(const corpus::RowFormat& format,
                                  absl::Span<const corpus::GenerationView> generations,
                                  const corpus::QueryTile& tile) const {
  if (static_cast<int64_t>(tile.k.size()) > facts_.batch_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries: ", tile.k.size(), " in a batch, at most ", facts_.batch_max));
  }
  for (size_t q = 0; q < tile.k.size(); ++q) {
    if (tile.k[q] < 1 || tile.k[q] > facts_.k_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("query ", q, ": k = ", tile.k[q], ", must be in [1, ", facts_.k_max, "]"));
    }
  }
  for (const corpus::GenerationView& view : generations) {
    const auto& planes = static_cast<const CpuRowPlanes&>(*view.planes);
    if (planes.format().dim != format.dim || planes.format().row_type != format.row_type) {
      return absl::InvalidArgumentError(absl::StrCat("a generation of dim = ", planes.format().dim,
                                                     " searched as dim = ", format.dim,
                                                     ", or as another row type"));
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

void CpuTopkEngine::PackQueries(const corpus::RowFormat& format, const float* queries,
                                int32_t count) {
  const int32_t dim_padded = PaddedDim(format.dim);
  double* const packed = workspace_.queries.Ensure(int64_t{count} * dim_padded);
  workspace_.query_squares.resize(static_cast<size_t>(count) + kRowGroup);
  if (format.metric == Metric::kCosine) {  // a query is a row of fp32: squared in padded form
    for (int32_t q = 0; q < count; ++q) {
      auto* const row = reinterpret_cast<float*>(packed);
      const float* const query = queries + int64_t{q} * format.dim;
      std::copy(query, query + format.dim, row);
      std::fill(row + format.dim, row + dim_padded, 0.0f);
      kernels_.square_rows(
          {reinterpret_cast<const std::byte*>(row), 1, dim_padded, RowType::kFloat32},
          &workspace_.query_squares[static_cast<size_t>(q)]);
    }
  }
  if (count > 1) return kernels_.pack_queries(queries, count, format.dim, packed);
  std::copy(queries, queries + format.dim, packed);
  std::fill(packed + format.dim, packed + dim_padded, 0.0);
}

absl::StatusOr<corpus::BestRows> CpuTopkEngine::Search(
    const corpus::RowFormat& format, absl::Span<const corpus::GenerationView> generations,
    const corpus::QueryTile& tile, corpus::ScanCost* cost) {
  ABSL_RETURN_IF_ERROR(Check(format, generations, tile));
  const std::lock_guard turn(threads_->turn);
  const auto start = std::chrono::steady_clock::now();
  *cost = {};
  corpus::BestRows best(tile.k.size(),
                        std::vector<std::vector<corpus::RankedScore>>(generations.size()));
  std::vector<std::vector<corpus::RankedScore>*> outputs;
  const auto queries_count = static_cast<int64_t>(tile.k.size());
  const int64_t query_bytes = PaddedDim(format.dim) * int64_t{sizeof(double)};
  for (int64_t first = 0; first < queries_count;) {
    int64_t end = first;
    for (int64_t key_bytes = 0; end < queries_count; ++end) {
      key_bytes += TopKeys::Capacity(tile.k[static_cast<size_t>(end)]) * int64_t{sizeof(uint64_t)};
      const bool full =
          key_bytes > kGroupKeyBytesMax || (end - first + 1) * query_bytes > kGroupQueryBytesMax;
      if (full && end > first) break;
    }
    PackQueries(format, tile.queries + first * format.dim, static_cast<int32_t>(end - first));
    const QueryGroup group = {
        format, tile.k.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)),
        &tile.cancelled};
    for (size_t g = 0; g < generations.size(); ++g) {
      if (generations[g].rows_live == 0) continue;
      outputs.clear();
      for (int64_t q = first; q < end; ++q) outputs.push_back(&best[static_cast<size_t>(q)][g]);
      GenerationScan scan({&threads_->pool, &kernels_, &workspace_}, group, generations[g]);
      ABSL_RETURN_IF_ERROR(scan.Run(outputs, cost));
    }
    first = end;
  }
  cost->device_us = MicrosSince(start);
  return best;
}

absl::Status CheckRange(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " = ", value, ", must be in [", min, ", ", max, "]"));
}

}  // namespace

std::vector<std::string> CpuInstructionSets() {
  std::vector<std::string> names;
  for (const ScanKernels* kernels : SupportedScanKernels()) names.emplace_back(kernels->name);
  return names;
}

absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeCpuTopkEngine(const CpuOptions& options) {
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
