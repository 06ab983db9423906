// Searches whose answers need only ids that are numbers: a backend may finish them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/corpus/corpus.h"
#include "engine/search/search_rows.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// Returns true if the answers need nothing of their rows but ids that are numbers, and each query
// needs one search, without row terms or parts of scores.
bool IdsAreEnough(const CollectionSpec& spec, const SearchBatch& batch, int32_t k_max);

// Answers those of `queries` that are at `places`, in the order of `search`. Requires:
// IdsAreEnough. Adds to *cost. Errors: as SearchRows.
absl::Status SearchIds(const corpus::Corpus& corpus, const RowSearch& search,
                       absl::Span<const Query> queries, absl::Span<const size_t> places,
                       backend::ScanCost* cost, std::vector<Neighbors>* answers);

}  // namespace nearfield
