// AttributeReader: parses attribute values from text, row by row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/formats/csv.h"
#include "client/formats/json_text.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/update.h"

namespace nearfield::client {

// Collects the values of all attributes, row by row. After an error the reader must not be used
// again.
//
// In JSON: a number, true or false, a string; a time in the form of ParseTimestamp, or as
// microseconds; for doubles also "inf" and "-inf"; a list as an array. null, or no member: no
// value. In CSV: the same without quotes, or as pandas writes it: True, False, a space before the
// time of day; a list as a JSON array, or null. An empty cell: no value; "" in quotes: an empty
// keyword.
class AttributeReader {
 public:
  explicit AttributeReader(const std::vector<AttributeSpec>& specs);

  // Adds a row from the members of a checked JSON object. Members with other names are ignored.
  // Errors: InvalidArgument (names the attribute; also for an attribute that occurs twice).
  absl::Status AddRow(std::span<const JsonMember> members);

  // Adds a row from a line of CSV. columns[i] is the column of attribute i, or kNoColumn.
  static constexpr size_t kNoColumn = ~size_t{0};
  absl::Status AddRow(const std::vector<CsvCell>& cells, const std::vector<size_t>& columns);

  // Returns the rows since the last call: one column for each attribute that one of them has. Adds
  // them to rows_with_value().
  std::vector<AttributeColumn> Take();

  // Returns the rows since the last call as changes of rows that exist: one update for each
  // attribute that one of them names. A row that names it without a value loses its value; a row
  // that does not name it keeps its value. An attribute that has a column of CSV is named by every
  // row.
  std::vector<AttributeUpdate> TakeUpdates();

  // For each attribute, the number of rows with a value, up to the last Take().
  const std::vector<uint64_t>& rows_with_value() const { return rows_with_value_; }

 private:
  std::vector<AttributeColumnBuilder> builders_;
  std::vector<std::vector<bool>> named_;  // for each attribute: by the rows since the last call
  std::vector<uint64_t> rows_with_value_;
};

// Returns true if one of the attributes has that name.
bool Declares(std::span<const AttributeSpec> specs, std::string_view name);

}  // namespace nearfield::client
