// RowValues: the values of each row, as codes (posting_lists.h), in the order in which the row has
// them. It is the inverse of PostingLists. Rows are numbered from 0, among those that have a value
// or an empty list.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/attributes/packed_ints.h"

namespace nearfield::server {

// Places [begin, end) in the codes of all rows.
struct CodePlaces {
  int64_t begin = 0;
  int64_t end = 0;
};

// Codes of rows, one after the other, before they are packed.
struct RowCodes {
  std::vector<uint32_t> codes;
  std::vector<uint32_t> list_sizes;  // list attributes: one for each row
};

// Immutable.
class RowValues {
 public:
  RowValues() = default;
  RowValues(bool is_list, const RowCodes& rows);

  bool is_list() const { return is_list_; }
  // Cost for a list: up to kRowsPerBegin sizes are added.
  CodePlaces PlacesOf(int64_t row) const;
  uint32_t code(int64_t place) const { return codes_.at(place); }
  // Appends rows [first, first + count) with new_codes[code] in place of each code.
  void AppendTo(int64_t first, int64_t count, absl::Span<const uint32_t> new_codes,
                RowCodes* to) const;
  // Returns an upper limit of bytes() for rows with these numbers of values and rows.
  static int64_t BytesMax(bool is_list, int64_t values_count, int64_t rows_count);
  int64_t bytes() const;

 private:
  // Only every 64th list stores where it begins: 4 bytes for each row would be more than most
  // lists take.
  static constexpr int64_t kRowsPerBegin = 64;

  bool is_list_ = false;
  PackedInts codes_;
  PackedInts list_sizes_;
  std::vector<uint32_t> begins_;  // of lists 0, kRowsPerBegin, 2 * kRowsPerBegin, ...
};

}  // namespace nearfield::server
