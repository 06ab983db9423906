// Merges the best rows of each generation into the best rows of the corpus.
#ifndef NEARFIELD_ENGINE_MERGE_BEST_H_
#define NEARFIELD_ENGINE_MERGE_BEST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/backend.h"
#include "engine/corpus/snapshot.h"

namespace nearfield {

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
