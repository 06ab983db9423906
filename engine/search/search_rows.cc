#include "engine/search/search_rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield {
namespace {

using backend::GenerationView;
using backend::RankedLists;
using backend::ScanCost;
using corpus::Corpus;

// Queries [begin, end) of a batch, at most the maximum of the backend.
struct Tile {
  size_t begin = 0;
  size_t end = 0;
};

// The results of a search, tile by tile.
struct Results {
  RankedLists lists;  // of one tile
  std::vector<Hits> answers;
  ScanCost* const cost;
};

absl::Status CheckShape(const RankedLists& lists, size_t queries_count, size_t generations_count) {
  if (lists.queries_count() != queries_count) {
    return absl::InternalError(absl::StrCat("the backend answered ", lists.queries_count(), " of ",
                                            queries_count, " queries"));
  }
  if (lists.generations_count() != generations_count) {
    return absl::InternalError(absl::StrCat("the backend answered for ", lists.generations_count(),
                                            " of ", generations_count, " generations"));
  }
  return absl::OkStatus();
}

// Checks the backend's lists: a list that is too short or out of order would become a wrong answer.
absl::Status CheckComplete(absl::Span<const GenerationView> views, const QueryLists& lists,
                           int32_t k) {
  int64_t rows_live = 0;
  int64_t rows_listed = 0;
  for (size_t g = 0; g < views.size(); ++g) {
    const absl::Span<const backend::RankedScore> list = lists.of(g);
    const bool ordered =
        std::adjacent_find(list.begin(), list.end(), [](const auto& a, const auto& b) {
          return a.score != b.score ? a.score < b.score : a.rank >= b.rank;
        }) == list.end();
    if (!ordered || static_cast<int64_t>(list.size()) > views[g].rows_live) {
      return absl::InternalError(absl::StrCat("the backend answered ", list.size(), " of ",
                                              views[g].rows_live, " rows of a generation",
                                              ordered ? "" : ", out of order"));
    }
    rows_live += views[g].rows_live;
    rows_listed += static_cast<int64_t>(list.size());
  }
  const int64_t expected = std::min<int64_t>(k, rows_live);
  if (rows_listed >= expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the backend answered ", rows_listed, " of ", expected, " rows"));
}

// Computes the answers of one tile.
absl::Status SearchTile(const Corpus& corpus, const RowSearch& search, const Tile& tile,
                        Results* results) {
  const ResolvedQueries& resolved = search.queries;
  const size_t count = tile.end - tile.begin;
  std::vector<int32_t> k;
  for (size_t i = tile.begin; i < tile.end; ++i) {
    k.push_back(search.k[i] + (resolved.self[i] ? 1 : 0));
    CHECK(1 <= k.back() && k.back() <= corpus.device()->backend().info().k_max);
  }
  const std::vector<GenerationView> views = search.rows.Views();
  const corpus::CorpusSnapshot& snapshot = *search.rows.snapshot;
  std::vector<char> merged(count);  // not 0: the query has its answer
  const auto merge = [&](int64_t place) -> absl::Status {
    const auto i = static_cast<size_t>(place);
    const size_t query = tile.begin + i;
    const QueryLists lists = {.snapshot = snapshot, .lists = results->lists, .query = i};
    ABSL_RETURN_IF_ERROR(CheckComplete(views, lists, k[i]));
    ABSL_ASSIGN_OR_RETURN(results->answers[query],
                          MergeBest(lists, search.k[query], resolved.self[query]));
    merged[i] = 1;
    return absl::OkStatus();
  };
  ScanCost tile_cost;
  const absl::Status status = corpus.device()->backend().Search(
      corpus.format(), views,
      {.queries = resolved.vectors.data() + tile.begin * static_cast<size_t>(corpus.spec().dim),
       .k = k,
       .cancelled = search.cancelled,
       .host_work = &corpus.device()->host_work(),
       .answered = merge},
      &results->lists, &tile_cost);
  if (!status.ok()) return corpus.device()->Observe(status);
  *results->cost += tile_cost;
  ABSL_RETURN_IF_ERROR(CheckShape(results->lists, count, snapshot.generations.size()));
  int64_t rows_wanted = 0;
  for (size_t i = 0; i < count; ++i) rows_wanted += merged[i] != 0 ? 0 : k[i];
  return corpus.device()->host_work().ParallelFor(
      static_cast<int64_t>(count), rows_wanted * kBytesPerHit, [&](int64_t place) {
        return merged[static_cast<size_t>(place)] != 0 ? absl::OkStatus() : merge(place);
      });
}

// Returns the maximum queries of a tile: their lists of all generations stay below
// kTileListBytesMax.
size_t TileMax(const Corpus& corpus, const RowSearch& search) {
  constexpr size_t kTileListBytesMax = size_t{64} << 20;
  const auto k = static_cast<size_t>(*std::max_element(search.k.begin(), search.k.end())) + 1;
  const size_t query_bytes =
      k * search.rows.snapshot->generations.size() * sizeof(backend::RankedScore);
  const auto batch_max = static_cast<size_t>(corpus.device()->backend().info().batch_max);
  return std::clamp<size_t>(kTileListBytesMax / query_bytes, 1, std::max<size_t>(1, batch_max));
}

}  // namespace

absl::Status CheckCancelled(const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) return absl::CancelledError("the search was cancelled");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Hits>> SearchRows(const Corpus& corpus, const RowSearch& search,
                                             ScanCost* cost) {
  const size_t queries_count = search.k.size();
  Results results = {.lists = {}, .answers = std::vector<Hits>(queries_count), .cost = cost};
  if (search.rows.rows_count() == 0) return std::move(results.answers);
  const size_t tile_max = TileMax(corpus, search);
  for (size_t begin = 0; begin < queries_count; begin += tile_max) {
    ABSL_RETURN_IF_ERROR(CheckCancelled(search.cancelled));
    const Tile tile = {.begin = begin, .end = std::min(begin + tile_max, queries_count)};
    ABSL_RETURN_IF_ERROR(SearchTile(corpus, search, tile, &results));
  }
  return std::move(results.answers);
}

}  // namespace nearfield
