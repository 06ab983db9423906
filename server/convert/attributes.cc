#include "server/convert/attributes.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/enum_table.h"
#include "server/convert/text.h"

namespace nearfield::server {
namespace {

constexpr std::pair<pb::AttributeType, AttributeType> kAttributeTypes[] = {
    {pb::ATTRIBUTE_TYPE_INT64, AttributeType::kInt64},
    {pb::ATTRIBUTE_TYPE_DOUBLE, AttributeType::kDouble},
    {pb::ATTRIBUTE_TYPE_BOOL, AttributeType::kBool},
    {pb::ATTRIBUTE_TYPE_KEYWORD, AttributeType::kKeyword},
    {pb::ATTRIBUTE_TYPE_TIMESTAMP, AttributeType::kTimestamp}};

// Calls `visit` with the repeated member of this type.
template <typename Visit>
auto WithMember(const pb::AttributeValues& values, AttributeType type, const Visit& visit) {
  switch (type) {
    case AttributeType::kDouble: return visit(values.double_values());
    case AttributeType::kBool: return visit(values.bool_values());
    case AttributeType::kKeyword: return visit(values.keyword_values());
    case AttributeType::kTimestamp: return visit(values.timestamp_us_values());
    default: return visit(values.int64_values());
  }
}

int CountOf(const pb::AttributeValues& values, AttributeType type) {
  return WithMember(values, type, [](const auto& member) { return member.size(); });
}

void AppendTo(ValueColumn* column, int64_t value) { column->AppendInteger(value); }
void AppendTo(ValueColumn* column, double value) { column->AppendDouble(value); }
void AppendTo(ValueColumn* column, bool value) { column->AppendBool(value); }
void AppendTo(ValueColumn* column, const std::string& value) { column->AppendKeyword(value); }

// Returns the row of the n-th present value (from 0).
int64_t RowOfPresent(const std::vector<bool>& present, int64_t n) {
  int64_t row = 0;
  for (; row < static_cast<int64_t>(present.size()); ++row) {
    if (present[static_cast<size_t>(row)] && n-- == 0) break;
  }
  return row;
}

int64_t RowOfValue(const AttributeColumn& column, bool is_list, int64_t value) {
  if (!is_list) return RowOfPresent(column.present, value);
  int64_t list = 0;
  for (; value >= int64_t{column.list_sizes[static_cast<size_t>(list)]}; ++list) {
    value -= column.list_sizes[static_cast<size_t>(list)];
  }
  return RowOfPresent(column.present, list);
}

// Returns the number of values that all rows together must have, from the presence and list sizes.
absl::StatusOr<int64_t> ReadSizes(const std::string& field, const pb::AttributeColumn& message,
                                  const AttributeSpec& spec, const AttributeLimits& limits,
                                  AttributeColumn* column) {
  const int64_t present = std::count(column->present.begin(), column->present.end(), true);
  const int64_t sizes = message.list_sizes_size();
  if (!spec.is_list) {
    if (sizes == 0) return present;
    return ArgumentError(field + ".list_sizes",
                         absl::StrCat(sizes, " given, \"", spec.name, "\" has type ",
                                      Describe(spec), ": must be none"));
  }
  if (sizes != present) {
    return ArgumentError(
        field + ".list_sizes",
        absl::StrCat(sizes, " for ", present, " rows that have a value, must be one each"));
  }
  int64_t values = 0;
  for (int i = 0; i < sizes; ++i) {
    const uint32_t size = message.list_sizes(i);
    if (size > limits.list_values_max) {
      return ArgumentError(absl::StrCat(field, ".list_sizes[", i, "]"),
                           absl::StrCat(size, " values in row ", RowOfPresent(column->present, i),
                                        ", must be at most ", limits.list_values_max));
    }
    values += size;
  }
  column->list_sizes.assign(message.list_sizes().begin(), message.list_sizes().end());
  return values;
}

absl::Status CheckValues(const std::string& field, const AttributeSpec& spec,
                         const AttributeLimits& limits, const AttributeColumn& column) {
  const bool keywords = spec.type == AttributeType::kKeyword;
  if (!keywords && spec.type != AttributeType::kDouble) return absl::OkStatus();
  for (int64_t i = 0; i < column.values.size(); ++i) {
    std::string problem;
    if (keywords &&
        static_cast<int64_t>(column.values.keyword(i).size()) > limits.keyword_bytes_max) {
      problem = absl::StrCat(column.values.keyword(i).size(), " bytes, must be at most ",
                             limits.keyword_bytes_max);
    } else if (!keywords && std::isnan(column.values.number(i))) {
      problem = "NaN, must be a number or an infinity";
    }
    if (problem.empty()) continue;
    return ArgumentError(absl::StrCat(field, ".values[", i, "]"),
                         absl::StrCat("row ", RowOfValue(column, spec.is_list, i), ": ", problem));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<AttributeType> AttributeTypeFromProto(pb::AttributeType type) {
  return NativeIn(kAttributeTypes, type);
}

pb::AttributeType ToProto(AttributeType type) { return ProtoIn(kAttributeTypes, type); }

absl::StatusOr<AttributeSpec> FromProto(const pb::AttributeSpec& spec, const std::string& field) {
  const std::optional<AttributeType> type = AttributeTypeFromProto(spec.type());
  if (!type.has_value()) {
    return ArgumentError(field + ".type",
                         absl::StrCat(static_cast<int>(spec.type()),
                                      ", must be INT64, DOUBLE, BOOL, KEYWORD or TIMESTAMP"));
  }
  return AttributeSpec{
      .name = spec.name(), .type = *type, .is_list = spec.is_list(), .expires = spec.expires()};
}

absl::StatusOr<AttributeSchema> FromProto(
    const google::protobuf::RepeatedPtrField<pb::AttributeSpec>& specs,
    const AttributeLimits& limits) {
  std::vector<AttributeSpec> native;
  for (const pb::AttributeSpec& spec : specs) {
    ABSL_ASSIGN_OR_RETURN(AttributeSpec each,
                          FromProto(spec, absl::StrCat("attributes[", native.size(), "]")));
    native.push_back(std::move(each));
  }
  return AttributeSchema::Create(std::move(native), limits);
}

void ToProto(const AttributeSchema& schema,
             google::protobuf::RepeatedPtrField<pb::AttributeSpec>* specs) {
  for (const int32_t attribute : schema.declared()) {
    const AttributeSpec& spec = schema.at(attribute);
    pb::AttributeSpec* const message = specs->Add();
    message->set_name(spec.name);
    message->set_type(ToProto(spec.type));
    message->set_is_list(spec.is_list);
    message->set_expires(spec.expires);
  }
}

absl::StatusOr<AttributeBlock> FromProto(
    const google::protobuf::RepeatedPtrField<pb::AttributeColumn>& columns,
    const AttributeSchema& schema, int64_t rows_count, const AttributeLimits& limits) {
  AttributeBlock block = EmptyBlock(schema);
  block.rows_count = rows_count;
  std::vector<bool> seen(block.columns.size(), false);
  for (int i = 0; i < columns.size(); ++i) {
    const std::string field = absl::StrCat("block.attributes[", i, "]");
    ABSL_ASSIGN_OR_RETURN(const int32_t attribute,
                          AttributeFromProto(field + ".attribute", columns[i].attribute(), schema));
    const auto place = static_cast<size_t>(attribute);
    if (seen[place]) {
      return ArgumentError(field + ".attribute", absl::StrCat(Quote(columns[i].attribute()),
                                                              " has another column in this block"));
    }
    seen[place] = true;
    ABSL_ASSIGN_OR_RETURN(
        block.columns[place],
        ColumnFromProto(field, columns[i], schema.at(attribute), rows_count, limits));
  }
  for (size_t place = 0; place < seen.size(); ++place) {
    if (!seen[place]) block.columns[place].present.assign(static_cast<size_t>(rows_count), false);
  }
  return block;
}

absl::StatusOr<std::vector<bool>> BitsFromProto(const std::string& field, const std::string* bits,
                                                int64_t rows_count) {
  if (bits == nullptr) return std::vector<bool>(static_cast<size_t>(rows_count), true);
  const int64_t bytes = (rows_count + 7) / 8;
  if (static_cast<int64_t>(bits->size()) != bytes) {
    return ArgumentError(
        field, absl::StrCat(bits->size(), " bytes for ", rows_count, " rows, must be ", bytes));
  }
  const auto bit = [bits](size_t place) {
    return (static_cast<uint8_t>((*bits)[place / 8]) >> (place % 8) & 1) != 0;
  };
  std::vector<bool> rows(static_cast<size_t>(rows_count));
  for (size_t row = 0; row < rows.size(); ++row) rows[row] = bit(row);
  for (size_t place = rows.size(); place < 8 * bits->size(); ++place) {
    if (bit(place)) {
      return ArgumentError(field,
                           absl::StrCat("bit ", place, " is set, there are ", rows_count, " rows"));
    }
  }
  return rows;
}

absl::StatusOr<int32_t> AttributeFromProto(const std::string& field, const std::string& name,
                                           const AttributeSchema& schema) {
  const std::optional<int32_t> attribute = schema.Find(name);
  if (attribute.has_value()) return *attribute;
  return ArgumentError(field,
                       absl::StrCat(Quote(name), " is no attribute of the collection",
                                    schema.declared().empty() ? ", which declares none" : ""));
}

absl::StatusOr<AttributeColumn> ColumnFromProto(const std::string& field,
                                                const pb::AttributeColumn& message,
                                                const AttributeSpec& spec, int64_t rows_count,
                                                const AttributeLimits& limits) {
  AttributeColumn column;
  ABSL_ASSIGN_OR_RETURN(
      column.present,
      BitsFromProto(field + ".presence", message.has_presence() ? &message.presence() : nullptr,
                    rows_count));
  ABSL_ASSIGN_OR_RETURN(const int64_t wanted, ReadSizes(field, message, spec, limits, &column));
  ABSL_ASSIGN_OR_RETURN(const std::optional<AttributeType> type,
                        TypeOfValues(field + ".values", message.values()));
  if (type.has_value() && *type != spec.type) {
    return ArgumentError(field + ".values",
                         absl::StrCat(NameOf(*type), " given, \"", spec.name, "\" has type ",
                                      Describe(spec), ": types must be the same"));
  }
  if (ValuesCount(message.values()) != wanted) {
    return ArgumentError(field + ".values",
                         absl::StrCat(ValuesCount(message.values()), " given, ",
                                      spec.is_list ? "list_sizes" : "the rows that have a value",
                                      " make it ", wanted));
  }
  column.values = ValuesFromProto(message.values(), spec.type);
  ABSL_RETURN_IF_ERROR(CheckValues(field, spec, limits, column));
  return column;
}

int64_t ValuesCount(const pb::AttributeValues& values) {
  int64_t count = 0;
  for (const auto& [proto, type] : kAttributeTypes) count += CountOf(values, type);
  return count;
}

absl::StatusOr<std::optional<AttributeType>> TypeOfValues(const std::string& field,
                                                          const pb::AttributeValues& values) {
  std::optional<AttributeType> filled;
  for (const auto& [proto, type] : kAttributeTypes) {
    if (CountOf(values, type) == 0) continue;
    if (filled.has_value()) {
      return ArgumentError(field, absl::StrCat("both ", NameOf(*filled), " and ", NameOf(type),
                                               " given, must be one type"));
    }
    filled = type;
  }
  return filled;
}

ValueColumn ValuesFromProto(const pb::AttributeValues& values, AttributeType type) {
  ValueColumn column(type);
  WithMember(values, type, [&column](const auto& member) {
    for (const auto& value : member) AppendTo(&column, value);
  });
  return column;
}

int64_t ValueBytesMax(AttributeType type) {
  constexpr int64_t kTagBytes = 3;      // of a keyword: its tag and length
  constexpr int64_t kNumberBytes = 10;  // at most, as a varint
  return type == AttributeType::kKeyword ? kTagBytes + AttributeLimits().keyword_bytes_max
                                         : kNumberBytes;
}

void ToProto(const ValueColumn& values, pb::AttributeValues* message) {
  for (int64_t i = 0; i < values.size(); ++i) {
    switch (values.type()) {
      case AttributeType::kInt64: message->add_int64_values(values.bits(i)); break;
      case AttributeType::kDouble: message->add_double_values(values.number(i)); break;
      case AttributeType::kBool: message->add_bool_values(values.bits(i) != 0); break;
      case AttributeType::kKeyword: {
        const std::string_view keyword = values.keyword(i);
        message->add_keyword_values(keyword.data(), keyword.size());
        break;
      }
      case AttributeType::kTimestamp: message->add_timestamp_us_values(values.bits(i)); break;
    }
  }
}

}  // namespace nearfield::server
