#include "server/attributes/row_changes.h"

#include <cstddef>
#include <utility>

namespace nearfield::server {
namespace {

// The values of each row of a column.
std::vector<BlockCursor::Values> ValuesByRow(const AttributeColumn& column) {
  std::vector<BlockCursor::Values> rows;
  int64_t next = 0;
  size_t list = 0;
  for (const bool present : column.present) {
    const int64_t count = !present ? 0 : column.list_sizes.empty() ? 1 : column.list_sizes[list];
    if (present) ++list;
    rows.push_back({.present = present, .begin = next, .end = next + count});
    next += count;
  }
  return rows;
}

void AppendValues(const AttributeColumn& from, const BlockCursor::Values& values, bool is_list,
                  AttributeColumn* to) {
  to->present.push_back(values.present);
  if (!values.present) return;
  if (is_list) to->list_sizes.push_back(static_cast<uint32_t>(values.end - values.begin));
  for (int64_t value = values.begin; value < values.end; ++value) {
    to->values.AppendFrom(from.values, value);
  }
}

// Returns one attribute of the rows. `change`: null if it stays.
AttributeColumn ApplyChange(const AttributeSpec& spec, const AttributeColumn& rows,
                            absl::Span<const RowPlace> places, const AttributeChange* change) {
  AttributeColumn result = EmptyColumn(spec);
  const std::vector<BlockCursor::Values> old_values = ValuesByRow(rows);
  std::vector<BlockCursor::Values> new_values;
  if (change != nullptr) new_values = ValuesByRow(change->column);
  for (const RowPlace& place : places) {
    const auto entry = static_cast<size_t>(place.entry);
    if (change != nullptr && change->changed[entry]) {
      AppendValues(change->column, new_values[entry], spec.is_list, &result);
    } else {
      AppendValues(rows, old_values[static_cast<size_t>(place.row)], spec.is_list, &result);
    }
  }
  return result;
}

}  // namespace

AttributeBlock ReadRows(const RowReader& rows, const AttributeSchema& schema) {
  AttributeBlock block = EmptyBlock(schema);
  block.rows_count = rows.rows_count();
  for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
    AttributeColumn& column = block.columns[static_cast<size_t>(attribute)];
    if (schema.at(attribute).dropped) {
      column.present.assign(static_cast<size_t>(block.rows_count), false);
    } else {
      column = rows.Read(attribute, block.rows_count);
    }
  }
  return block;
}

AttributeBlock ApplyChanges(const AttributeSchema& schema, const AttributeBlock& rows,
                            absl::Span<const RowPlace> places,
                            absl::Span<const AttributeChange> changes) {
  std::vector<const AttributeChange*> change_of(static_cast<size_t>(schema.size()), nullptr);
  for (const AttributeChange& change : changes) {
    change_of[static_cast<size_t>(change.attribute)] = &change;
  }
  AttributeBlock block;
  block.rows_count = static_cast<int64_t>(places.size());
  for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
    const auto place = static_cast<size_t>(attribute);
    block.columns.push_back(
        ApplyChange(schema.at(attribute), rows.columns[place], places, change_of[place]));
  }
  return block;
}

}  // namespace nearfield::server
