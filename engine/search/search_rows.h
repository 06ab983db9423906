// SearchRows: searches a set of rows of a snapshot. Passes queries to the backend in tiles and
// merges its lists into answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/row_selection.h"
#include "engine/search/merge_best.h"
#include "engine/search/resolve.h"

namespace nearfield {

// The rows of one answer, best first.
using Hits = std::vector<Hit>;

// Borrowed for the call.
struct RowSearch {
  // The rows of each query, all of one snapshot. Queries with the same rows share one object.
  absl::Span<const corpus::SearchedRows* const> rows;
  const ResolvedQueries& queries;
  absl::Span<const int32_t> k;             // rows wanted per query; replaces queries.k
  const std::function<bool()>& cancelled;  // may be empty
  bool may_finish = false;                 // see backend::QueryTile::finish
  // Takes the place of a query's finished rows, whose values will be there when the search ends.
  // Returns false if it must wait for them. May be empty, and may be called in vain.
  std::function<bool(size_t query, const QueryLists& lists)> take_place = nullptr;

  // Returns the number of rows that can be in the answer of a query.
  int64_t RowsOfOrder(size_t query) const {
    const std::optional<corpus::RowRef>& self = queries.self[query];
    return rows[query]->rows_count() - (self && rows[query]->Holds(*self) ? 1 : 0);
  }
  const corpus::CorpusSnapshot& snapshot() const { return *rows.front()->snapshot; }
};

// Takes the rows of a query, which are complete. Called once for each query, by several threads at
// a time. An error ends the search.
using TakeRows = absl::FunctionRef<absl::Status(size_t query, const QueryLists& lists)>;

// Returns OK, or Cancelled if `cancelled` is not empty and returns true.
absl::Status CheckCancelled(const std::function<bool()>& cancelled);

// Finds for every query its best min(k, rows) rows, one more for a query by id; none is taken if no
// query has rows. Queries with different rows share the passes of the backend. Adds to *cost.
// Errors: Cancelled, Unavailable, Internal (the backend returned an impossible answer).
absl::Status SearchRows(const corpus::Corpus& corpus, const RowSearch& search, TakeRows take,
                        backend::ScanCost* cost);

// The same, and returns these rows in order, without the row of a query by id.
absl::StatusOr<std::vector<Hits>> SearchHits(const corpus::Corpus& corpus, const RowSearch& search,
                                             backend::ScanCost* cost);

}  // namespace nearfield
