// Block cutter: splits rows into blocks whose messages stay below a size limit. It knows only the
// sizes of the wire format.
#pragma once

#include <cstddef>
#include <cstdint>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Checks that a column has `count` rows, and as many values as they have. Errors: InvalidArgument
// (begins with `name`; names the two lengths).
absl::Status CheckColumn(const AttributeColumn& column, const std::string& name, size_t count);

// Checks that the columns have the same length. Errors: InvalidArgument (names the two lengths).
absl::Status CheckColumns(const RowBlock& rows);

// A position between two rows of an attribute column: the number of rows, of rows with a value, and
// of values before it. Requires: a checked column that outlives it.
class ColumnPlace {
 public:
  explicit ColumnPlace(const AttributeColumn& column) : column_(&column) {}

  uint64_t RowBytes() const;  // upper bound for the next row's bytes in a message
  void Advance();             // moves past the next row

  const AttributeColumn& column() const { return *column_; }
  bool next_has_value() const { return column_->presence.empty() || column_->presence[rows_]; }
  size_t rows() const { return rows_; }
  size_t rows_with_value() const { return rows_with_value_; }
  size_t values() const { return values_; }

 private:
  size_t NextValues() const;  // of the next row

  const AttributeColumn* column_;
  size_t rows_ = 0;
  size_t rows_with_value_ = 0;
  size_t values_ = 0;
};

// Returns the start of each attribute column.
std::vector<ColumnPlace> StartOf(const RowBlock& rows);

// Returns the end of the longest run of rows from `begin` that fits into a block of bytes_max
// bytes; at least one row. Moves `places` from `begin` to that end. Requires: checked columns,
// begin < Count(*rows.ids). Errors: InvalidArgument (a single row does not fit).
absl::StatusOr<size_t> BlockEnd(const RowBlock& rows, size_t begin, uint64_t bytes_max,
                                std::vector<ColumnPlace>* places);

}  // namespace nearfield::client
