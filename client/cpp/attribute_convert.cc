#include "client/cpp/attribute_convert.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <utility>

#include "client/cpp/check_text.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

absl::Status Malformed(const AttributeColumn& column, std::string_view what) {
  return absl::InternalError(
      Cat("malformed reply: ", what, " of the attribute \"", column.attribute, "\""));
}

absl::StatusOr<AttributeColumn> TakeColumn(v1::AttributeColumn* proto, size_t rows_count) {
  AttributeColumn column;
  column.attribute = std::move(*proto->mutable_attribute());
  column.values = TakeValues(proto->mutable_values());
  if (proto->has_presence()) {
    const std::string& bits = proto->presence();
    if (bits.size() != (rows_count + 7) / 8) return Malformed(column, "the presence");
    for (size_t row = 0; row < rows_count; ++row) {
      column.presence.push_back((static_cast<uint8_t>(bits[row / 8]) >> (row % 8) & 1) != 0);
    }
  }
  const auto present = static_cast<size_t>(
      proto->has_presence() ? std::count(column.presence.begin(), column.presence.end(), true)
                            : static_cast<ptrdiff_t>(rows_count));
  column.list_sizes.assign(proto->list_sizes().begin(), proto->list_sizes().end());
  const bool is_list = !column.list_sizes.empty();
  if (is_list && column.list_sizes.size() != present) return Malformed(column, "the list sizes");
  const uint64_t wanted =
      is_list ? std::accumulate(column.list_sizes.begin(), column.list_sizes.end(), uint64_t{0})
              : present;
  if (Count(column.values) != wanted) return Malformed(column, "the values");
  return column;
}

}  // namespace

AttributeValues TakeValues(v1::AttributeValues* proto) {
  if (proto->double_values_size() > 0) {
    return std::vector<double>(proto->double_values().begin(), proto->double_values().end());
  }
  if (proto->bool_values_size() > 0) {
    return std::vector<bool>(proto->bool_values().begin(), proto->bool_values().end());
  }
  if (proto->keyword_values_size() > 0) {
    std::vector<std::string> keywords;
    keywords.reserve(static_cast<size_t>(proto->keyword_values_size()));
    for (std::string& keyword : *proto->mutable_keyword_values()) {
      keywords.push_back(std::move(keyword));
    }
    return keywords;
  }
  if (proto->timestamp_us_values_size() > 0) {
    std::vector<Timestamp> times;
    times.reserve(static_cast<size_t>(proto->timestamp_us_values_size()));
    for (const int64_t us : proto->timestamp_us_values()) {
      times.emplace_back(std::chrono::microseconds(us));
    }
    return times;
  }
  return std::vector<int64_t>(proto->int64_values().begin(), proto->int64_values().end());
}

absl::StatusOr<std::vector<AttributeColumn>> TakeColumns(AttributeColumnProtos* protos,
                                                         size_t rows_count) {
  std::vector<AttributeColumn> columns;
  for (v1::AttributeColumn& proto : *protos) {
    NF_ASSIGN_OR_RETURN(AttributeColumn column, TakeColumn(&proto, rows_count));
    columns.push_back(std::move(column));
  }
  return columns;
}

std::string Bitmap(const std::vector<bool>& bits, size_t begin, size_t end) {
  std::string bytes((end - begin + 7) / 8, '\0');
  for (size_t i = 0; i < end - begin; ++i) {
    if (!bits[begin + i]) continue;
    bytes[i / 8] = static_cast<char>(static_cast<uint8_t>(bytes[i / 8]) | (1u << (i % 8)));
  }
  return bytes;
}

void ToProto(const ColumnPlace& from, const ColumnPlace& to, v1::AttributeColumn* proto) {
  const AttributeColumn& column = from.column();
  proto->set_attribute(column.attribute);
  ToProto(column.values, from.values(), to.values(), proto->mutable_values());
  if (!column.list_sizes.empty()) {
    const auto sizes = column.list_sizes.begin();
    proto->mutable_list_sizes()->Add(sizes + static_cast<ptrdiff_t>(from.rows_with_value()),
                                     sizes + static_cast<ptrdiff_t>(to.rows_with_value()));
  }
  if (to.rows_with_value() - from.rows_with_value() == to.rows() - from.rows()) return;
  proto->set_presence(Bitmap(column.presence, from.rows(), to.rows()));
}

absl::Status AddNames(std::span<const std::string> attributes,
                      google::protobuf::RepeatedPtrField<std::string>* names) {
  for (const std::string& name : attributes) {
    NF_RETURN_IF_ERROR(CheckText("attributes", name));
    names->Add(std::string(name));
  }
  return absl::OkStatus();
}

}  // namespace nearfield::client
