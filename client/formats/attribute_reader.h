// Values of attributes from text, row by row.
#ifndef NEARFIELD_CLIENT_FORMATS_ATTRIBUTE_READER_H_
#define NEARFIELD_CLIENT_FORMATS_ATTRIBUTE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/formats/csv.h"
#include "client/formats/json_text.h"
#include "nearfield/client/attributes.h"

namespace nearfield::client {

// Collects the values of all attributes. Each row is given once; after an error the reader is of no
// more use.
//
// In JSON: a number, true or false, a string; a time as ParseTimestamp takes it, or microseconds;
// for doubles also "inf" and "-inf"; a list as an array; null, or no member: no value.
// In CSV: the same without quotes; a list as a JSON array; an empty cell: no value, but "" in
// quotes: an empty keyword.
class AttributeReader {
 public:
  explicit AttributeReader(const std::vector<AttributeSpec>& specs);

  // The next row, from members of a checked JSON object. Members of other names are passed over.
  // Errors: InvalidArgument naming the attribute; one twice.
  absl::Status AddRow(std::span<const JsonMember> members);

  // The next row, from a line of CSV. columns[i] is the place of attribute i, or kNoColumn.
  static constexpr size_t kNoColumn = ~size_t{0};
  absl::Status AddRow(const std::vector<CsvCell>& cells, const std::vector<size_t>& columns);

  // The rows since the last call, a column an attribute that one of them has; counts them.
  std::vector<AttributeColumn> Take();

  // Rows with a value, of each attribute, up to the last Take().
  const std::vector<uint64_t>& rows_with_value() const { return rows_with_value_; }

 private:
  std::vector<AttributeColumnBuilder> builders_;
  std::vector<uint64_t> rows_with_value_;
};

// Whether one of the attributes has that name.
bool Declares(std::span<const AttributeSpec> specs, std::string_view name);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_ATTRIBUTE_READER_H_
