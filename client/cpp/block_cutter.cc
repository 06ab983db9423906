#include "client/cpp/block_cutter.h"

#include <algorithm>
#include <string>
#include <variant>

#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

// Tags and lengths of the block's own fields: seven, each at most 11 bytes.
constexpr uint64_t kBlockOverheadBytes = 77;
// A tag and a length before each element of a repeated string.
constexpr uint64_t kElementOverheadBytes = 6;

uint64_t IdBytes(const IdColumn& ids, size_t i) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&ids)) {
    return (*texts)[i].size() + kElementOverheadBytes;
  }
  return sizeof(uint64_t);
}

// A column's own tags and lengths: six, each at most 11 bytes.
constexpr uint64_t kColumnOverheadBytes = 66;
// A number or a time, as a varint or a fixed-size field; or a bool.
constexpr uint64_t kValueBytesMost = 10;
// The size of a list, and the row's bit in the presence column.
constexpr uint64_t kListSizeBytesMost = 5;
constexpr uint64_t kPresenceBytes = 1;

}  // namespace

absl::Status CheckColumn(const AttributeColumn& column, const std::string& name, size_t count) {
  const auto bad = [&](size_t given, std::string_view what, size_t wanted,
                       std::string_view of) -> absl::Status {
    return absl::InvalidArgumentError(Cat(name, ": ", given, " ", what, " for ", wanted, " ", of));
  };
  const bool is_list = !column.list_sizes.empty();
  size_t with_value = count;
  if (!column.presence.empty()) {
    if (column.presence.size() != count) {
      return bad(column.presence.size(), "presence bits", count, "rows");
    }
    with_value =
        static_cast<size_t>(std::count(column.presence.begin(), column.presence.end(), true));
  }
  const size_t values = Count(column.values);
  if (!is_list) {
    return values == with_value ? absl::OkStatus()
                                : bad(values, "values", with_value, "rows that have one");
  }
  if (column.list_sizes.size() != with_value) {
    return bad(column.list_sizes.size(), "list sizes", with_value, "rows that have a list");
  }
  size_t listed = 0;
  for (const uint32_t size : column.list_sizes) listed += size;
  return listed == values ? absl::OkStatus() : bad(values, "values", listed, "places of lists");
}

absl::Status CheckColumns(const RowBlock& rows) {
  const size_t count = rows.ids == nullptr ? 0 : Count(*rows.ids);
  if (!rows.payloads.empty() && rows.payloads.size() != count) {
    return absl::InvalidArgumentError(
        Cat("payloads: ", rows.payloads.size(), " for ", count, " ids; give none, or one a row"));
  }
  const size_t row_unit = count * ElementBytes(rows.dtype);
  if (count == 0 ? !rows.vectors.empty()
                 : rows.vectors.empty() || rows.vectors.size() % row_unit != 0) {
    return absl::InvalidArgumentError(Cat("vectors: ", rows.vectors.size(), " bytes are not ",
                                          count, " rows of ", Name(rows.dtype)));
  }
  for (size_t i = 0; i < rows.attributes.size(); ++i) {
    const std::string name = Cat("attributes[", i, "] (", rows.attributes[i].attribute, ")");
    if (absl::Status status = CheckColumn(rows.attributes[i], name, count); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

size_t ColumnPlace::NextValues() const {
  if (!next_has_value()) return 0;
  return column_->list_sizes.empty() ? 1 : column_->list_sizes[rows_with_value_];
}

uint64_t ColumnPlace::RowBytes() const {
  uint64_t bytes = kPresenceBytes + kListSizeBytesMost;
  const size_t count = NextValues();
  const auto* keywords = std::get_if<std::vector<std::string>>(&column_->values);
  if (keywords == nullptr) return bytes + count * kValueBytesMost;
  for (size_t i = values_; i < values_ + count; ++i) {
    bytes += (*keywords)[i].size() + kElementOverheadBytes;
  }
  return bytes;
}

void ColumnPlace::Advance() {
  values_ += NextValues();
  rows_with_value_ += next_has_value() ? 1 : 0;
  ++rows_;
}

std::vector<ColumnPlace> StartOf(const RowBlock& rows) {
  std::vector<ColumnPlace> places;
  places.reserve(rows.attributes.size());
  for (const AttributeColumn& column : rows.attributes) places.emplace_back(column);
  return places;
}

absl::StatusOr<size_t> BlockEnd(const RowBlock& rows, size_t begin, uint64_t bytes_max,
                                std::vector<ColumnPlace>* places) {
  const size_t count = Count(*rows.ids);
  const uint64_t vector_bytes = rows.vectors.size() / count;
  uint64_t bytes = kBlockOverheadBytes;
  for (const AttributeColumn& column : rows.attributes) {
    bytes += column.attribute.size() + kColumnOverheadBytes;
  }
  const uint64_t overhead_bytes = bytes;
  size_t end = begin;
  while (end < count) {
    uint64_t row_bytes = vector_bytes + IdBytes(*rows.ids, end);
    if (!rows.payloads.empty()) row_bytes += rows.payloads[end].size() + kElementOverheadBytes;
    for (const ColumnPlace& place : *places) row_bytes += place.RowBytes();
    if (row_bytes > bytes_max || bytes > bytes_max - row_bytes) {
      if (end > begin) break;
      return absl::InvalidArgumentError(Cat("the row with id ", ToString(At(*rows.ids, begin)),
                                            " takes ", row_bytes + overhead_bytes,
                                            " bytes, a block at most ", bytes_max));
    }
    bytes += row_bytes;
    for (ColumnPlace& place : *places) place.Advance();
    ++end;
  }
  return end;
}

}  // namespace nearfield::client
