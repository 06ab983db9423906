#include "engine/cpu/group_search.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/cpu/candidates.h"
#include "engine/cpu/code_scan.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/top_keys.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {
namespace {

// Limits of a group: its vectors in fp64, and the lists of each thread.
constexpr int64_t kQueryBytesMax = int64_t{8} << 20;
constexpr int64_t kListBytesMax = int64_t{16} << 20;
// Minimum rows per requested neighbor for a code scan; with fewer, too many rows would be scored.
// In a batch a row scan costs less per query.
constexpr int64_t kRowsANeighborMin = 16;
constexpr int64_t kRowsANeighborMinInPanels = 64;
// At most this many bytes of codes are scanned faster by one thread than by two, one of which must
// wake up: about twice the L2 cache of a core.
constexpr int64_t kCachedBytes = int64_t{4} << 20;

int64_t CodeBytes(absl::Span<const backend::GenerationView> generations) {
  int64_t bytes = 0;
  for (const backend::GenerationView& view : generations) {
    const auto& planes = static_cast<const CpuRowPlanes&>(*view.planes);
    bytes += planes.rows_count() * planes.code_stride();
  }
  return bytes;
}

}  // namespace

int64_t GroupSearch::QueriesTogether(const backend::RowFormat& format,
                                     absl::Span<const int32_t> k) {
  const int64_t query_bytes = PaddedDim(format.dim) * int64_t{sizeof(double)};
  const bool codes = format.scan != ScanPrecision::kRows;
  int64_t list_bytes = 0;
  int64_t count = 0;
  for (; count < static_cast<int64_t>(k.size()); ++count) {
    const int32_t k_here = k[static_cast<size_t>(count)];
    list_bytes += TopKeys::Capacity(k_here) * int64_t{sizeof(uint64_t)};
    if (codes) list_bytes += Candidates::WaitingMax(k_here) * int64_t{sizeof(Candidate)};
    const bool full = list_bytes > kListBytesMax || (count + 1) * query_bytes > kQueryBytesMax;
    if (full && count > 0) break;
  }
  return count;
}

bool GroupSearch::StartsWithCodes(const backend::RowFormat& format, int64_t rows_live, int32_t k,
                                  int64_t queries_count) {
  const int64_t rows_a_neighbor = CodeQueries::InPanels(static_cast<int32_t>(queries_count))
                                      ? kRowsANeighborMinInPanels
                                      : kRowsANeighborMin;
  return format.scan != ScanPrecision::kRows && rows_live >= rows_a_neighbor * k;
}

absl::Status GroupSearch::Begin(const Task& task) {
  const size_t count = task.k.size();
  rows_only_.assign(count, 1);
  rows_queries_.clear();
  rows_packed_ = 0;
  codes_ = false;
  cached_ = CodeBytes(task.generations) <= kCachedBytes;
  backward_ = cached_ && !backward_;
  for (size_t q = 0; q < count && !task.generations.empty(); ++q) {
    const auto queries = static_cast<int64_t>(count);
    const int64_t rows_live =
        backend::RowsLive(task.views.empty() ? task.generations : task.views[q]);
    rows_only_[q] = StartsWithCodes(task.format, rows_live, task.k[q], queries) ? 0 : 1;
    codes_ = codes_ || rows_only_[q] == 0;
  }
  if (codes_) {
    const CodeQueries::Input input = {
        .queries = task.queries,
        .k = task.k,
        .format = task.format,
        .rotation = static_cast<const CpuRowPlanes&>(*task.generations.front().planes).rotation()};
    ABSL_RETURN_IF_ERROR(queries_.Prepare(input, *context_.kernels, *context_.pool));
  }
  for (size_t q = 0; q < count; ++q) {
    if (rows_only_[q] == 0) continue;
    rows_queries_.push_back(static_cast<int32_t>(q));
    if (codes_) queries_.Abandon(static_cast<int32_t>(q));
  }
  return absl::OkStatus();
}

void GroupSearch::PackRowsQueries(const Task& task) {
  const int32_t dim = task.format.dim;
  const auto count = static_cast<int32_t>(rows_queries_.size());
  rows_k_.clear();
  rows_terms_.clear();
  rows_views_.clear();
  for (const int32_t q : rows_queries_) {
    rows_k_.push_back(task.k[static_cast<size_t>(q)]);
    if (!task.terms.empty()) rows_terms_.push_back(task.terms[static_cast<size_t>(q)]);
    if (!task.views.empty()) rows_views_.push_back(task.views[static_cast<size_t>(q)]);
  }
  const float* queries = task.queries;
  if (rows_queries_.size() < task.k.size()) {
    rows_vectors_.clear();
    for (const int32_t q : rows_queries_) {
      const float* const query = task.queries + int64_t{q} * dim;
      rows_vectors_.insert(rows_vectors_.end(), query, query + dim);
    }
    queries = rows_vectors_.data();
  }
  Workspace& workspace = *context_.workspace;
  const int32_t dim_padded = PaddedDim(dim);
  double* const packed = workspace.queries.Ensure(int64_t{count} * dim_padded);
  workspace.query_squares.resize(static_cast<size_t>(count));
  for (int32_t q = 0; q < count && task.format.metric == Metric::kCosine; ++q) {
    workspace.query_squares[static_cast<size_t>(q)] = QuerySquare(
        *context_.kernels, queries + int64_t{q} * dim, dim, reinterpret_cast<float*>(packed));
  }
  rows_packed_ = count;
  if (count > 1) return context_.kernels->pack_queries(queries, count, dim, packed);
  std::copy(queries, queries + dim, packed);
  std::fill(packed + dim, packed + dim_padded, 0.0);
}

absl::Status GroupSearch::SearchCodes(const Task& task, size_t generation,
                                      backend::RankedLists* best, backend::ScanCost* cost) {
  const QueryGroup group = {.format = task.format,
                            .k = task.k,
                            .cancelled = task.cancelled,
                            .terms = task.terms,
                            .views = task.views,
                            .generation = generation,
                            .cached = cached_,
                            .backward = backward_};
  CodeScan scan(context_, group, queries_, task.generations[generation]);
  ABSL_RETURN_IF_ERROR(
      scan.Run({.lists = best, .generation = generation, .queries = task.places}, cost));
  rows_queries_.clear();
  for (int32_t q = 0; q < queries_.count(); ++q) {
    if (queries_.abandoned(q)) rows_queries_.push_back(q);
  }
  return absl::OkStatus();
}

absl::Status GroupSearch::SearchRows(const Task& task, size_t generation,
                                     backend::RankedLists* best, backend::ScanCost* cost) {
  // Queries are only added to the set, so an equal count means an equal set.
  if (rows_packed_ != static_cast<int64_t>(rows_queries_.size())) PackRowsQueries(task);
  places_.clear();
  for (const int32_t q : rows_queries_) {
    places_.push_back(task.places[static_cast<size_t>(q)]);
  }
  const QueryGroup group = {.format = task.format,
                            .k = rows_k_,
                            .cancelled = task.cancelled,
                            .terms = rows_terms_,
                            .views = rows_views_,
                            .generation = generation};
  GenerationScan scan(context_, group, task.generations[generation]);
  return scan.Run({.lists = best, .generation = generation, .queries = places_}, cost);
}

// Drops rows below the floors: a list is complete only above its floor.
void GroupSearch::CutAtFloors(const Task& task, backend::RankedLists* best,
                              backend::ScanCost* cost) {
  for (int32_t q = 0; q < queries_.count(); ++q) {
    if (rows_only_[static_cast<size_t>(q)] != 0) continue;
    if (queries_.abandoned(q)) {
      ++cost->escalations.canonical;
    } else {
      ++cost->queries_of_codes;
    }
    const float floor = queries_.floor(q).score();
    const size_t place = task.places[static_cast<size_t>(q)];
    for (size_t g = 0; g < task.generations.size(); ++g) {
      absl::Span<const backend::RankedScore> list = best->list(place, g);
      while (!list.empty() && list.back().score < floor) list.remove_suffix(1);
      best->Resize(place, g, list.size());
    }
  }
}

absl::Status GroupSearch::Run(const Task& task, backend::RankedLists* best,
                              backend::ScanCost* cost) {
  ABSL_RETURN_IF_ERROR(Begin(task));
  for (size_t turn = 0; turn < task.generations.size(); ++turn) {
    const size_t g = backward_ ? task.generations.size() - 1 - turn : turn;
    if (task.generations[g].rows_live == 0) continue;
    if (rows_queries_.size() < task.k.size()) {
      ABSL_RETURN_IF_ERROR(SearchCodes(task, g, best, cost));
    }
    if (!rows_queries_.empty()) ABSL_RETURN_IF_ERROR(SearchRows(task, g, best, cost));
  }
  if (codes_) CutAtFloors(task, best, cost);
  return absl::OkStatus();
}

}  // namespace nearfield::cpu
