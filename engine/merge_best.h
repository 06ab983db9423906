// Merges the best rows of each generation into the best rows of the corpus.
#ifndef NEARFIELD_ENGINE_MERGE_BEST_H_
#define NEARFIELD_ENGINE_MERGE_BEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/backend.h"
#include "engine/corpus/snapshot.h"

namespace nearfield {

// What an answer names lies anywhere in columns of many megabytes: fetched into the cache this far
// ahead.
inline constexpr size_t kRowsAhead = 16;
// What taking a row of an answer costs, in bytes that would be copied meanwhile: it is a miss or
// two.
inline constexpr int64_t kBytesPerHit = 128;

// A row of an answer.
struct Hit {
  float score = 0;
  corpus::RowRef row;
};

// lists[g]: rows of generation g ordered by (score descending, rank ascending). The first k rows of
// all of them by (score descending, id ascending), `self` left out: that is the answer where each
// list holds min(k, rows live) rows, one more for a query by id. Errors: Internal (lists that
// cannot come from this snapshot). Cost: k log(generations) comparisons.
absl::StatusOr<std::vector<Hit>> MergeBest(const corpus::CorpusSnapshot& snapshot,
                                           absl::Span<const std::vector<corpus::RankedScore>> lists,
                                           int32_t k, const std::optional<corpus::RowRef>& self);

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_MERGE_BEST_H_
