// Reads whole rows of attributes, and applies changes to them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/row_reader.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// New values of one attribute, with one entry for each row of a request.
struct AttributeChange {
  int32_t attribute = 0;      // its number
  std::vector<bool> changed;  // rows that change; the others keep their value
  AttributeColumn column;     // a changed row without a value loses the one that it has
};

// Returns all attributes of the reader's rows that `schema` declares.
AttributeBlock ReadRows(const RowReader& rows, const AttributeSchema& schema);

// A row to take: its place in a block, and the entry of each change that applies to it.
struct RowPlace {
  int64_t row = 0;
  int64_t entry = 0;
};

// Returns the rows at `places` of `rows`, with their changes. Requires: ReadRows(.., schema); at
// most one change for each attribute.
AttributeBlock ApplyChanges(const AttributeSchema& schema, const AttributeBlock& rows,
                            absl::Span<const RowPlace> places,
                            absl::Span<const AttributeChange> changes);

}  // namespace nearfield::server
