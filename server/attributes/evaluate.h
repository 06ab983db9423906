// Evaluate: finds the rows that pass a filter.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "nearfield/engine/id_column.h"
#include "server/attributes/columns.h"
#include "server/attributes/filter.h"
#include "server/attributes/ordinal_set.h"

namespace nearfield::server {

struct EvaluateOptions {
  // Returns the ordinals of the rows with these ids; omits ids without a row. Required by filters
  // with has_id. Evaluate() returns its errors.
  std::function<absl::StatusOr<OrdinalSet>(const IdColumn& ids)> resolve_ids;
  // Polled between chunks; true ends the evaluation with Cancelled.
  std::function<bool()> cancelled;
};

// Returns the ordinals of all rows of the snapshot that pass the filter. They may include rows that
// the caller's epoch does not show; the caller excludes these.
// Requires: the filter was validated against the snapshot's schema.
// Cost, for each 2^20 rows: tens of microseconds for a condition whose rows the index holds as one
// set, up to 2 ms if they are combined from many values (README.md has figures).
// Errors: Cancelled, those of resolve_ids.
absl::StatusOr<OrdinalSet> Evaluate(const Filter& filter, const AttributeSnapshot& snapshot,
                                    const EvaluateOptions& options);

}  // namespace nearfield::server
