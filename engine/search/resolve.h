// Resolves a caller's queries for a backend: checks them, and reads the vectors of queries by id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/slot_terms.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

struct ResolvedQueries {
  absl::Span<const float> vectors;  // [k.size(), dim]: the caller's, or copies
  std::shared_ptr<float[]> copies;
  bool in_query_memory = false;  // the copies are in memory of backend::Backend::TakeQueryMemory
  std::vector<int32_t> k;        // requested neighbors
  std::vector<std::optional<corpus::RowRef>> self;  // the excluded row of a query by id
  // The row terms of each query, null if it has none; or empty: no query has any.
  std::vector<std::shared_ptr<const corpus::SlotTerms>> terms;
};

// Returns the queries at `places`, in that order.
ResolvedQueries Pick(const ResolvedQueries& all, absl::Span<const size_t> places, size_t dim);

// Returns the error of a query that is not finite in this dimension, or, if it is negative, that is
// all zeros with cosine.
absl::Status VectorError(int64_t query, int64_t dimension);

// Errors: InvalidArgument (names the query, the field, its value and the limit), NotFound (row_id),
// Unavailable.
absl::StatusOr<ResolvedQueries> ResolveQueries(const corpus::Corpus& corpus,
                                               const corpus::CorpusSnapshot& snapshot,
                                               absl::Span<const Query> queries, int32_t k_max);

}  // namespace nearfield
