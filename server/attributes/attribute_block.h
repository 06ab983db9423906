// AttributeBlock: the attributes of some rows, by column.
#pragma once

#include <cstdint>
#include <vector>

#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

struct AttributeColumn {
  std::vector<bool> present;         // one for each row: true if it has a value
  std::vector<uint32_t> list_sizes;  // list attributes: one for each present row
  // One value for each present row; for a list attribute, the concatenated lists.
  ValueColumn values;
};

struct AttributeBlock {
  int64_t rows_count = 0;
  std::vector<AttributeColumn> columns;  // one for each attribute of the schema, in its order
};

// Returns a column without rows.
inline AttributeColumn EmptyColumn(const AttributeSpec& spec) {
  return {.present = {}, .list_sizes = {}, .values = ValueColumn(spec.type)};
}

// Returns a block without rows, with a column for each attribute.
inline AttributeBlock EmptyBlock(const AttributeSchema& schema) {
  AttributeBlock block;
  for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
    block.columns.push_back(EmptyColumn(schema.at(attribute)));
  }
  return block;
}

// Reads a block row by row. Stores the current position in each column.
class BlockCursor {
 public:
  // Borrows `block`.
  explicit BlockCursor(const AttributeBlock* block)
      : block_(block), next_present_(block->columns.size()), next_value_(block->columns.size()) {}

  struct Values {
    bool present = false;
    int64_t begin = 0;  // range in the column's values
    int64_t end = 0;
  };
  // Returns the row's values of this attribute. Call it once for each row and attribute, with
  // ascending rows.
  Values Take(int64_t row, int32_t attribute) {
    const auto a = static_cast<size_t>(attribute);
    const AttributeColumn& column = block_->columns[a];
    if (!column.present[static_cast<size_t>(row)]) return {};
    const int64_t begin = next_value_[a];
    // Without sizes it is not a list: one value for each present row.
    const int64_t count = column.list_sizes.empty() ? 1 : column.list_sizes[next_present_[a]];
    ++next_present_[a];
    next_value_[a] += count;
    return {.present = true, .begin = begin, .end = begin + count};
  }

 private:
  const AttributeBlock* block_;
  std::vector<size_t> next_present_;
  std::vector<int64_t> next_value_;
};

}  // namespace nearfield::server
