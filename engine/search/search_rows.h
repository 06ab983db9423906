// SearchRows: searches a set of rows of a snapshot. Passes queries to the backend in tiles and
// merges its lists into answers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

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
  const corpus::SearchedRows& rows;
  const ResolvedQueries& queries;
  absl::Span<const int32_t> k;             // rows wanted per query; replaces queries.k
  const std::function<bool()>& cancelled;  // may be empty
};

// Returns OK, or Cancelled if `cancelled` is not empty and returns true.
absl::Status CheckCancelled(const std::function<bool()>& cancelled);

// Returns for every query its best min(k, rows) rows, in order. Adds to *cost. Errors: Cancelled,
// Unavailable, Internal (the backend returned an impossible answer).
absl::StatusOr<std::vector<Hits>> SearchRows(const corpus::Corpus& corpus, const RowSearch& search,
                                             backend::ScanCost* cost);

}  // namespace nearfield
