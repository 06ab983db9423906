#include "client/cli/attribute_columns.h"

#include "client/formats/attribute_text.h"

namespace nearfield::client {

AttributeColumns::AttributeColumns(std::span<const AttributeColumn> attributes, size_t rows_count) {
  for (const AttributeColumn& column : attributes) {
    names_.push_back(Printable(column.attribute));
    cells_.push_back(AttributeCells(column, rows_count));
  }
}

void AttributeColumns::AddNames(std::vector<Table::Column>* columns) const {
  for (const std::string& name : names_) columns->emplace_back(name);
}

void AttributeColumns::AddCells(size_t row, std::vector<std::string>* cells) const {
  for (const std::vector<std::string>& column : cells_) cells->push_back(column[row]);
}

}  // namespace nearfield::client
