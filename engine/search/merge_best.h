// Merges the best rows of each generation into the best rows of the corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/corpus/snapshot.h"

namespace nearfield {

// The rows of an answer are scattered over columns of many megabytes, so they are prefetched this
// many rows ahead.
inline constexpr size_t kRowsAhead = 16;
// The cost of reading one row of an answer, in bytes that could be copied in the same time: one or
// two cache misses.
inline constexpr int64_t kBytesPerHit = 128;

// One row of an answer.
struct Hit {
  float score = 0;
  corpus::RowRef row;
};

// The lists of one query in each generation of a snapshot, or its finished rows.
struct QueryLists {
  const corpus::CorpusSnapshot& snapshot;
  const backend::RankedLists& lists;  // of as many generations as the snapshot
  size_t query = 0;

  absl::Span<const backend::RankedScore> of(size_t generation) const {
    return lists.list(query, generation);
  }
  const backend::FinishedRows* finished() const { return lists.finished(query); }
};

// Requires: the query has lists. Returns the first k rows of all lists by (score descending, id
// ascending), without `self`. The result is the answer if each list holds min(k, live rows) rows,
// one more for a query by id. Errors: Internal (ranks that the snapshot does not have; rows out of
// order). Cost: k log(generations) comparisons; k if the backend knows the order of all rows.
absl::StatusOr<std::vector<Hit>> MergeBest(const QueryLists& best, int32_t k,
                                           const std::optional<corpus::RowRef>& self);

}  // namespace nearfield
