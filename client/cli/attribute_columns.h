// Table columns that show attributes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "client/cli/text_output.h"
#include "nearfield/client/attributes.h"

namespace nearfield::client {

class AttributeColumns {
 public:
  // Requires: columns of `rows_count` rows.
  AttributeColumns(std::span<const AttributeColumn> attributes, size_t rows_count);

  void AddNames(std::vector<Table::Column>* columns) const;
  // Requires: row < rows_count.
  void AddCells(size_t row, std::vector<std::string>* cells) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> cells_;  // by column
};

}  // namespace nearfield::client
