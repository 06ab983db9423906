// SearchByScores: queries with row terms on a backend that does not compute them.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/corpus/corpus.h"
#include "engine/search/search_rows.h"

namespace nearfield {

// As SearchHits. Takes rows in the order of their scores, and computes final scores on the host.
// Once k rows have a final score of at least f, each remaining row whose terms cannot lift the last
// score to f is left out; the search ends when no row remains. Cost: for each query with terms one
// search or a few, and between two of them one evaluation of the terms of each row that remains.
absl::StatusOr<std::vector<Hits>> SearchByScores(const corpus::Corpus& corpus,
                                                 const RowSearch& search, backend::ScanCost* cost);

}  // namespace nearfield
