#include "engine/search/search_rows.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/search/term_search.h"

namespace nearfield {
namespace {

using backend::GenerationView;
using backend::RankedLists;
using backend::ScanCost;
using corpus::Corpus;

// The costs of taking an answer that the backend has finished, as kBytesPerHit.
constexpr int64_t kBytesPerAnswer = 128;
constexpr int64_t kBytesPerFinishedRow = 16;  // that is copied

// Queries [begin, end) of a batch, at most the maximum of the backend.
struct Tile {
  size_t begin = 0;
  size_t end = 0;
};

// Returns the rows that the backend is asked for: a query by id finds its own row too.
int32_t KOfBackend(const RowSearch& search, size_t query) {
  return search.k[query] + (search.queries.self[query] ? 1 : 0);
}

std::vector<int32_t> KOfTile(const Corpus& corpus, const RowSearch& search, const Tile& tile) {
  const int32_t k_max = corpus.device()->backend().info().k_max;
  std::vector<int32_t> k(tile.end - tile.begin);
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] = KOfBackend(search, tile.begin + i);
    CHECK(1 <= k[i] && k[i] <= k_max);
  }
  return k;
}

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

// The order of finished rows is the backend's to keep: this thread does not read them.
absl::Status CheckFinished(absl::Span<const GenerationView> views,
                           const backend::FinishedRows& rows, int32_t k) {
  int64_t expected = 0;
  for (const GenerationView& view : views) expected += view.rows_live;
  expected = std::min<int64_t>(k, expected);
  const auto rows_count = static_cast<int64_t>(rows.scores.size());
  if (rows_count == expected && rows.ids.size() == rows.scores.size()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the backend answered ", rows_count, " of ", expected, " rows"));
}

// Checks the backend's rows: a list that is too short or out of order would become a wrong answer.
absl::Status CheckComplete(absl::Span<const GenerationView> views, const QueryLists& lists,
                           int32_t k) {
  if (lists.finished() != nullptr) return CheckFinished(views, *lists.finished(), k);
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

// The cost of taking a query's rows, in bytes that could be copied in the same time.
int64_t BytesToTake(const QueryLists& lists, int32_t k) {
  if (lists.finished() == nullptr) return k * kBytesPerHit;
  const bool copies = lists.lists.lent_memory() == nullptr;
  return kBytesPerAnswer + (copies ? k * kBytesPerFinishedRow : 0);
}

// The generations as the queries of a tile see them.
class TileViews {
 public:
  TileViews(const RowSearch& search, const Tile& tile) {
    std::unordered_map<const corpus::RowSelection*, absl::Span<const GenerationView>> known;
    const auto views_of = [&](const corpus::SearchedRows& some) {
      const auto [place, is_new] = known.try_emplace(some.selection.get());
      if (is_new) place->second = views_.emplace_back(some.Views());
      return place->second;
    };
    const auto rows = search.rows.subspan(tile.begin, tile.end - tile.begin);
    of_query_.reserve(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool again = i > 0 && rows[i] == rows[i - 1];
      of_query_.push_back(again ? of_query_.back() : views_of(*rows[i]));
    }
    differ_ = known.size() > 1;
    searched_ = differ_ ? views_of({.snapshot = rows.front()->snapshot, .selection = nullptr})
                        : of_query_.front();
  }

  // Returns the generations of the search, and the views as in QueryTile.
  absl::Span<const GenerationView> searched() const { return searched_; }
  absl::Span<const absl::Span<const GenerationView>> by_query() const {
    return differ_ ? absl::MakeConstSpan(of_query_)
                   : absl::Span<const absl::Span<const GenerationView>>();
  }
  absl::Span<const GenerationView> of(size_t query) const { return of_query_[query]; }

 private:
  std::vector<std::vector<GenerationView>> views_;
  std::vector<absl::Span<const GenerationView>> of_query_;
  absl::Span<const GenerationView> searched_;
  bool differ_ = false;
};

// Searches one tile. `lists` is reused by the next one.
absl::Status SearchTile(const Corpus& corpus, const RowSearch& search, const Tile& tile,
                        TakeRows take, RankedLists* lists, ScanCost* cost) {
  const ResolvedQueries& resolved = search.queries;
  const size_t count = tile.end - tile.begin;
  const std::vector<int32_t> k = KOfTile(corpus, search, tile);
  const TileViews views(search, tile);
  const corpus::CorpusSnapshot& snapshot = search.snapshot();
  std::vector<char> taken(count);  // not 0: the rows of the query are taken
  // Where the scores of each query were when take_place took them; null: not taken.
  std::vector<const float*> places(count);
  const auto lists_of = [&](size_t i) {
    return QueryLists{.snapshot = snapshot, .lists = *lists, .query = i};
  };
  const auto in_place = [&](size_t i) {
    const backend::FinishedRows* const rows = lists_of(i).finished();
    return rows != nullptr && places[i] == rows->scores.data();
  };
  const auto take_one = [&](int64_t place) -> absl::Status {
    const auto i = static_cast<size_t>(place);
    ABSL_RETURN_IF_ERROR(CheckComplete(views.of(i), lists_of(i), k[i]));
    if (!in_place(i)) ABSL_RETURN_IF_ERROR(take(tile.begin + i, lists_of(i)));
    taken[i] = 1;
    return absl::OkStatus();
  };
  const auto take_place = [&](int64_t place) {
    const auto i = static_cast<size_t>(place);
    // The device works for this search, so nothing may be thrown. Without memory the rows are taken
    // later, and that reports it.
    CatchOutOfMemory([&] {
      if (search.take_place(tile.begin + i, lists_of(i))) {
        places[i] = lists_of(i).finished()->scores.data();
      }
      return absl::OkStatus();
    }).IgnoreError();
  };
  std::vector<const backend::TermSource*> terms;
  if (!resolved.terms.empty()) {
    for (size_t i = tile.begin; i < tile.end; ++i) terms.push_back(resolved.terms[i].get());
  }
  ScanCost tile_cost;
  const absl::Status status = corpus.device()->backend().Search(
      corpus.format(), views.searched(),
      {.queries = resolved.vectors.data() + tile.begin * static_cast<size_t>(corpus.spec().dim),
       .k = k,
       .cancelled = search.cancelled,
       .host_work = &corpus.device()->host_work(),
       .answered = take_one,
       .placed = search.take_place ? std::function<void(int64_t)>(take_place) : nullptr,
       .finish = search.may_finish ? backend::Finish::kSome : backend::Finish::kNone,
       .in_query_memory = resolved.in_query_memory,
       .terms = terms,
       .views = views.by_query()},
      lists, &tile_cost);
  if (!status.ok()) return corpus.device()->Observe(status);
  *cost += tile_cost;
  ABSL_RETURN_IF_ERROR(CheckShape(*lists, count, snapshot.generations.size()));
  int64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    if (taken[i] == 0 && in_place(i)) ABSL_RETURN_IF_ERROR(take_one(static_cast<int64_t>(i)));
    if (taken[i] == 0) bytes += BytesToTake(lists_of(i), k[i]);
  }
  if (bytes == 0) return absl::OkStatus();
  return corpus.device()->host_work().ParallelFor(
      static_cast<int64_t>(count), bytes, [&](int64_t place) {
        return taken[static_cast<size_t>(place)] != 0 ? absl::OkStatus() : take_one(place);
      });
}

// Returns the maximum queries of a tile: their lists of all generations stay below
// kTileListBytesMax, and a backend that may finish them has room for their rows.
size_t TileMax(const Corpus& corpus, const RowSearch& search) {
  constexpr size_t kTileListBytesMax = size_t{64} << 20;
  size_t k = 0;
  for (size_t i = 0; i < search.k.size(); ++i) {
    k = std::max(k, static_cast<size_t>(KOfBackend(search, i)));
  }
  const size_t query_bytes =
      k * search.snapshot().generations.size() * sizeof(backend::RankedScore);
  const backend::BackendInfo& info = corpus.device()->backend().info();
  size_t most = std::min(kTileListBytesMax / query_bytes, static_cast<size_t>(info.batch_max));
  if (search.may_finish && info.finished_rows_max > 0) {
    most = std::min(most, static_cast<size_t>(info.finished_rows_max) / k);
  }
  return std::max<size_t>(1, most);
}

}  // namespace

absl::Status CheckCancelled(const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) return absl::CancelledError("the search was cancelled");
  return absl::OkStatus();
}

absl::Status SearchRows(const Corpus& corpus, const RowSearch& search, TakeRows take,
                        ScanCost* cost) {
  const auto is_empty = [](const corpus::SearchedRows* rows) { return rows->rows_count() == 0; };
  if (std::all_of(search.rows.begin(), search.rows.end(), is_empty)) return absl::OkStatus();
  const size_t queries_count = search.k.size();
  RankedLists lists;
  const size_t tile_max = TileMax(corpus, search);
  for (size_t begin = 0; begin < queries_count; begin += tile_max) {
    ABSL_RETURN_IF_ERROR(CheckCancelled(search.cancelled));
    const Tile tile = {.begin = begin, .end = std::min(begin + tile_max, queries_count)};
    ABSL_RETURN_IF_ERROR(SearchTile(corpus, search, tile, take, &lists, cost));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Hits>> SearchHits(const Corpus& corpus, const RowSearch& search,
                                             ScanCost* cost) {
  const bool has_terms = !search.queries.terms.empty();
  if (has_terms && !corpus.device()->backend().info().row_terms) {
    return SearchByScores(corpus, search, cost);
  }
  std::vector<Hits> answers(search.k.size());
  const auto merge = [&](size_t query, const QueryLists& lists) -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(answers[query],
                          MergeBest(lists, search.k[query], search.queries.self[query]));
    return absl::OkStatus();
  };
  const absl::Status status = SearchRows(corpus, search, merge, cost);
  // The device has too little memory for the numbers of the terms.
  if (has_terms && absl::IsResourceExhausted(status)) return SearchByScores(corpus, search, cost);
  ABSL_RETURN_IF_ERROR(status);
  return answers;
}

}  // namespace nearfield
