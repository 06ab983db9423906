// CountValues: the number of rows for each value of an attribute.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/engine/row_filter.h"
#include "server/attributes/columns.h"
#include "server/attributes/ordinal_set.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// The values that most rows have.
struct ValueCounts {
  ValueColumn values;                // by number of rows, the largest first; then by value
  std::vector<int64_t> rows_counts;  // of each value, at least 1
  int64_t values_count = 0;          // distinct values of the rows, others than `values` included
  int64_t rows_missing = 0;          // rows without a value
};

// The rows to count, in the two forms that the posting lists need.
class CountedRows {
 public:
  explicit CountedRows(RowFilter bits)
      : bits_(std::move(bits)), rows_(OrdinalSet::FromWords(0, bits_.chosen)) {}

  const RowFilter& bits() const { return bits_; }
  const OrdinalSet& rows() const { return rows_; }

 private:
  RowFilter bits_;
  OrdinalSet rows_;
};

struct CountValuesOptions {
  int64_t values_max = 0;  // maximum number of values to return, at least 1
  // Polled at least every 65536 values; true ends the call with Cancelled. May be empty.
  std::function<bool()> cancelled;
};

// Counts the rows of each value of the attribute. A row with a list counts once for each of its
// distinct values, and a row with an empty list has a value. -0 and +0 are one value, +0.
// Requires: the snapshot has each of the rows.
// Cost: one step for each value and each row of the snapshot, tens of milliseconds for a million
// values, less for few of them; memory for `values_max` values only. Errors: Cancelled.
absl::StatusOr<ValueCounts> CountValues(const AttributeSnapshot& snapshot, int32_t attribute,
                                        const CountedRows& rows, const CountValuesOptions& options);

}  // namespace nearfield::server
