// The rows that pass a filter.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_EVALUATE_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_EVALUATE_H_

#include <functional>

#include "absl/status/statusor.h"
#include "nearfield/engine/id_column.h"
#include "server/catalog/attributes/columns.h"
#include "server/catalog/attributes/filter.h"
#include "server/catalog/attributes/ordinal_set.h"

namespace nearfield::server {

struct EvaluateOptions {
  // The ordinals of the rows with these ids; ids that name no row are left out. Needed by filters
  // that have has_id; its errors are those of Evaluate().
  std::function<absl::StatusOr<OrdinalSet>(const IdColumn& ids)> resolve_ids;
  // Asked between chunks; true ends the evaluation with Cancelled.
  std::function<bool()> cancelled;
};

// The ordinals of all rows of the snapshot that pass the filter, which was validated against its
// schema. Rows that the caller's epoch does not show are among them: the caller leaves them out.
// Cost, for each 2^20 rows: tens of microseconds a condition where its rows are held as they are
// needed, up to 2 ms where they are put together from many values (README.md has figures). Errors:
// Cancelled, those of resolve_ids.
absl::StatusOr<OrdinalSet> Evaluate(const Filter& filter, const AttributeSnapshot& snapshot,
                                    const EvaluateOptions& options);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_EVALUATE_H_
