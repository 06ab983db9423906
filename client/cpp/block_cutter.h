// Cuts rows into blocks whose messages stay below a limit. Knows the wire format's sizes, and
// nothing else of it.
#ifndef NEARFIELD_CLIENT_CPP_BLOCK_CUTTER_H_
#define NEARFIELD_CLIENT_CPP_BLOCK_CUTTER_H_

#include <cstddef>
#include <cstdint>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/upload.h"

namespace nearfield::client {

// Whether the columns agree. Errors: InvalidArgument naming the two lengths.
absl::Status CheckColumns(const RowBlock& rows);

// A place between two rows of an attribute column: how many rows, rows with a value, and values
// stand before it. Requires a checked column that outlives it.
class ColumnPlace {
 public:
  explicit ColumnPlace(const AttributeColumn& column) : column_(&column) {}

  uint64_t RowBytes() const;  // that the next row takes in a message, at most
  void Advance();             // behind the next row

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

// The start of each attribute column.
std::vector<ColumnPlace> StartOf(const RowBlock& rows);

// The end of the longest run of rows from `begin` on that fits a block of bytes_max bytes, at least
// one row long. `places`, which stand at `begin`, are moved there. Requires checked columns and
// begin < Count(*rows.ids). Errors: InvalidArgument where the row alone does not fit.
absl::StatusOr<size_t> BlockEnd(const RowBlock& rows, size_t begin, uint64_t bytes_max,
                                std::vector<ColumnPlace>* places);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CPP_BLOCK_CUTTER_H_
