#include "engine/search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/merge_best.h"
#include "engine/resolve.h"

namespace nearfield {
namespace {

using corpus::BestRows;
using corpus::Corpus;
using corpus::CorpusSnapshot;
using corpus::Generation;
using corpus::GenerationView;
using corpus::RowCopy;
using corpus::RowRef;
using corpus::ScanCost;

using Hits = std::vector<Hit>;

absl::Status CheckCancelled(const SearchBatch& batch) {
  if (batch.cancelled && batch.cancelled()) return absl::CancelledError("the search was cancelled");
  return absl::OkStatus();
}

absl::Status CheckBatch(const SearchBatch& batch, int32_t batch_max) {
  if (batch.queries.empty() || batch.queries.size() > static_cast<size_t>(batch_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries: ", batch.queries.size(), " queries in a batch; 1 to ", batch_max));
  }
  return absl::OkStatus();
}

// Queries [begin, end) of a batch, at most as many as the backend takes at once.
struct Tile {
  size_t begin = 0;
  size_t end = 0;
};

// A list that is short or out of order would become a wrong answer: the backend is checked, not
// trusted.
absl::Status CheckComplete(absl::Span<const GenerationView> views,
                           absl::Span<const std::vector<corpus::RankedScore>> lists, int32_t k) {
  for (size_t g = 0; g < std::min(lists.size(), views.size()); ++g) {
    const std::vector<corpus::RankedScore>& list = lists[g];
    const auto expected = static_cast<size_t>(std::min<int64_t>(k, views[g].rows_live));
    const bool ordered = std::is_sorted(
        list.begin(), list.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    if (list.size() == expected && ordered) continue;
    return absl::InternalError(absl::StrCat("the backend answered ", list.size(), " of ", expected,
                                            " rows", ordered ? "" : ", out of order"));
  }
  return absl::OkStatus();
}

// The answers of one tile, appended to `answers`.
absl::Status SearchTile(const Corpus& corpus, const CorpusSnapshot& snapshot,
                        const SearchBatch& batch, const ResolvedQueries& resolved, const Tile& tile,
                        ScanCost* cost, std::vector<Hits>* answers) {
  const size_t count = tile.end - tile.begin;
  std::vector<int32_t> k;
  for (size_t i = tile.begin; i < tile.end; ++i) {
    k.push_back(resolved.k[i] + (resolved.self[i] ? 1 : 0));
  }
  const std::vector<GenerationView> views = snapshot.Views();
  ScanCost tile_cost;
  absl::StatusOr<BestRows> best = corpus.device()->backend().Search(
      corpus.format(), views,
      {.queries = resolved.vectors.data() + tile.begin * static_cast<size_t>(corpus.spec().dim),
       .k = k,
       .cancelled = batch.cancelled},
      &tile_cost);
  if (!best.ok()) return corpus.device()->Observe(best.status());
  cost->device_us += tile_cost.device_us;
  cost->candidates += tile_cost.candidates;
  cost->bytes_read += tile_cost.bytes_read;
  if (best->size() != count) {
    return absl::InternalError(
        absl::StrCat("the backend answered ", best->size(), " of ", count, " queries"));
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t query = tile.begin + i;
    ABSL_RETURN_IF_ERROR(CheckComplete(views, (*best)[i], k[i]));
    ABSL_ASSIGN_OR_RETURN(Hits hits,
                          MergeBest(snapshot, (*best)[i], resolved.k[query], resolved.self[query]));
    answers->push_back(std::move(hits));
  }
  return absl::OkStatus();
}

// Queries of a tile: their lists of all generations stay below kTileListBytesMax together.
size_t TileMax(const Corpus& corpus, const CorpusSnapshot& snapshot,
               const ResolvedQueries& resolved) {
  constexpr size_t kTileListBytesMax = size_t{64} << 20;
  const auto k = static_cast<size_t>(*std::max_element(resolved.k.begin(), resolved.k.end())) + 1;
  const size_t query_bytes = k * snapshot.generations.size() * sizeof(corpus::RankedScore);
  const auto batch_max = static_cast<size_t>(corpus.device()->backend().facts().batch_max);
  return std::clamp<size_t>(kTileListBytesMax / query_bytes, 1, std::max<size_t>(1, batch_max));
}

absl::StatusOr<std::vector<Hits>> Scan(const Corpus& corpus, const CorpusSnapshot& snapshot,
                                       const SearchBatch& batch, const ResolvedQueries& resolved,
                                       ScanCost* cost) {
  std::vector<Hits> answers;
  if (snapshot.generations.empty()) {
    answers.resize(batch.queries.size());
    return answers;
  }
  const size_t tile_max = TileMax(corpus, snapshot, resolved);
  for (size_t begin = 0; begin < batch.queries.size(); begin += tile_max) {
    ABSL_RETURN_IF_ERROR(CheckCancelled(batch));
    const Tile tile = {.begin = begin, .end = std::min(begin + tile_max, batch.queries.size())};
    ABSL_RETURN_IF_ERROR(SearchTile(corpus, snapshot, batch, resolved, tile, cost, &answers));
  }
  return answers;
}

// Refuses before anything is copied: payloads may be large, and a batch may name each many times.
absl::Status CheckResultBytes(const Corpus& corpus, const CorpusSnapshot& snapshot,
                              const std::vector<Hits>& answers, const RowParts& parts) {
  if (parts.bytes_max == 0) return absl::OkStatus();
  int64_t bytes = 0;
  for (const Hits& hits : answers) {
    for (const Hit& hit : hits) {
      bytes += corpus::PartBytes(snapshot, hit.row, corpus.row_bytes(), parts);
    }
  }
  return corpus::CheckPartBytes(bytes, parts);
}

// From rows to what the caller asked for; stored vectors for the whole batch at once.
absl::StatusOr<std::vector<Neighbors>> Gather(const Corpus& corpus, const CorpusSnapshot& snapshot,
                                              const std::vector<Hits>& answers, RowParts parts) {
  const auto row_size = static_cast<size_t>(corpus.row_bytes());
  std::vector<Neighbors> queries(answers.size());
  std::vector<RowCopy> copies;
  for (size_t q = 0; q < answers.size(); ++q) {
    const Hits& hits = answers[q];
    Neighbors& neighbors = queries[q];
    neighbors.ids = IdColumn(corpus.spec().id_type);
    neighbors.ids.Reserve(static_cast<int64_t>(hits.size()));
    neighbors.scores.reserve(hits.size());
    if (parts.vectors) neighbors.rows.resize(hits.size() * row_size);
    for (size_t i = 0; i < hits.size(); ++i) {
      const RowRef& row = hits[i].row;
      const Generation& generation = *snapshot.generations[row.generation].generation;
      neighbors.ids.AppendFrom(generation.ids, row.slot);
      neighbors.scores.push_back(hits[i].score);
      if (parts.payloads) neighbors.payloads.Append(generation.payload(row.slot));
      if (parts.vectors) copies.push_back({.row = row, .to = neighbors.rows.data() + i * row_size});
    }
  }
  ABSL_RETURN_IF_ERROR(corpus::ReadRows(snapshot, copies, corpus.row_bytes()));
  return queries;
}

}  // namespace

absl::StatusOr<SearchResult> SearchCorpus(const Corpus& corpus, const SearchLimits& limits,
                                          const SearchBatch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  ABSL_RETURN_IF_ERROR(CheckBatch(batch, limits.batch_max));
  ABSL_RETURN_IF_ERROR(CheckCancelled(batch));
  const std::shared_ptr<const CorpusSnapshot> snapshot = corpus.Pin();
  ABSL_ASSIGN_OR_RETURN(const ResolvedQueries resolved,
                        ResolveQueries(corpus, *snapshot, batch.queries, limits.k_max));
  ScanCost cost;
  ABSL_ASSIGN_OR_RETURN(const std::vector<Hits> answers,
                        Scan(corpus, *snapshot, batch, resolved, &cost));

  SearchResult result;
  result.epoch = snapshot->epoch;
  ABSL_RETURN_IF_ERROR(CheckCancelled(batch));
  ABSL_RETURN_IF_ERROR(CheckResultBytes(corpus, *snapshot, answers, batch.parts));
  ABSL_ASSIGN_OR_RETURN(result.queries, Gather(corpus, *snapshot, answers, batch.parts));
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  result.cost = {.device_us = cost.device_us,
                 .total_us = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count(),
                 .rows_scanned = snapshot->rows_live(),
                 .candidates = cost.candidates,
                 .bytes_read = cost.bytes_read,
                 .backend = corpus.device()->backend().facts().kind,
                 .precision = ScanPrecision::kRows};
  return result;
}

}  // namespace nearfield
