// The oracle: a slow, obviously correct reference. It scores every row by the formula and sorts all
// of them. It shares only engine/score with the engine that it checks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/row_terms.h"
#include "nearfield/engine/types.h"

namespace nearfield::oracle {

// Rows and their ids, borrowed.
struct Rows {
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  const void* data = nullptr;     // [ids->size(), dim] row-major, host memory
  const IdColumn* ids = nullptr;  // all distinct
};

// A row term of a query, with the number of each row; for kIs 1 or 0.
struct Term {
  TermParameters parameters;
  absl::Span<const double> numbers;  // borrowed, one for each row
};

// Without terms the final score of a row is its score.
struct Terms {
  double score_weight = 1;
  std::vector<Term> terms;
};

// Row indices and their scores, best first.
struct Answer {
  std::vector<int64_t> rows;
  std::vector<float> scores;
};

// Returns the canonical score of one row ([query.size()] elements of `row_type`, any alignment) for
// a query. Requires: finite values; for cosine the query is not all zeros.
float Score(Metric metric, RowType row_type, absl::Span<const float> query, const void* row);

// Returns the min(k, rows) best rows in the total order (score descending, id ascending). The
// scores are final scores if there are `terms`. Cost: scores and sorts every row. Split a corpus
// that is too large for one call into chunks, and merge their answers with score::ComesBefore.
Answer TopK(const Rows& rows, absl::Span<const float> query, int64_t k,
            const Terms* terms = nullptr);

}  // namespace nearfield::oracle
