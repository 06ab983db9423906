#include "server/convert/returned_attributes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/checked_math.h"
#include "server/attributes/limits.h"
#include "server/convert/attributes.h"
#include "server/convert/text.h"

namespace nearfield::server {
namespace {

constexpr char kAll[] = "*";
// The object of a column and of its values.
constexpr int64_t kColumnBytes = sizeof(pb::AttributeColumn) + sizeof(pb::AttributeValues);
constexpr int64_t kFacetBytes = sizeof(pb::Facet) + sizeof(pb::AttributeValues);
constexpr int64_t kNumberBytes = 10;  // at most, as a varint
// The encoding of a row (row_encoding.h) limits its attributes. In a message no value takes more
// than twice the bytes that it takes there.
constexpr int64_t kRowBytesMax = 2 * AttributeLimits().row_bytes_max;

// Returns the bytes of one row's values, if a keyword takes `keyword_bytes` and a list has
// `list_values` values.
int64_t RowBytes(const AttributeSchema& schema, const WantedAttributes& wanted,
                 int64_t keyword_bytes, int64_t list_values) {
  int64_t bytes = 0;
  for (const int32_t attribute : wanted) {
    const AttributeSpec& spec = schema.at(attribute);
    const int64_t value = spec.type == AttributeType::kKeyword ? keyword_bytes : kNumberBytes;
    bytes += spec.is_list ? 2 + list_values * value : value;
  }
  return std::min(bytes, kRowBytesMax);
}

std::string PresenceOf(const std::vector<bool>& present) {
  std::string bits((present.size() + 7) / 8, '\0');
  for (size_t row = 0; row < present.size(); ++row) {
    if (present[row]) bits[row / 8] = static_cast<char>(bits[row / 8] | 1 << (row % 8));
  }
  return bits;
}

}  // namespace

absl::StatusOr<WantedAttributes> WantedFromProto(
    const google::protobuf::RepeatedPtrField<std::string>& names, const AttributeSchema& schema) {
  WantedAttributes wanted;
  if (names.size() == 1 && names[0] == kAll) {
    return schema.declared();
  }
  std::vector<bool> seen(static_cast<size_t>(schema.size()), false);
  for (int i = 0; i < names.size(); ++i) {
    const std::string field = absl::StrCat("attributes[", i, "]");
    const std::string name = Quote(names[i]);
    if (names[i] == kAll) {
      return ArgumentError(field, "\"*\" means all attributes, so it must be the only one", name,
                           "the only one");
    }
    const std::optional<int32_t> attribute = schema.Find(names[i]);
    if (!attribute.has_value()) {
      return ArgumentError(field,
                           absl::StrCat(name, " is no attribute of the collection",
                                        schema.declared().empty() ? ", which declares none" : ""),
                           name, "an attribute that the collection declares");
    }
    if (seen[static_cast<size_t>(*attribute)]) {
      return ArgumentError(field, absl::StrCat(name, " is given twice, must be given once"), name,
                           "once");
    }
    seen[static_cast<size_t>(*attribute)] = true;
    wanted.push_back(*attribute);
  }
  std::sort(wanted.begin(), wanted.end());
  return wanted;
}

int64_t AttributeBytesExpected(const AttributeSchema& schema, const WantedAttributes& wanted) {
  constexpr int64_t kKeywordBytes = 32;
  constexpr int64_t kListValues = 4;
  return RowBytes(schema, wanted, kKeywordBytes, kListValues);
}

int64_t AttributeBytesLimit(const AttributeSchema& schema, const WantedAttributes& wanted) {
  constexpr AttributeLimits kLimits;
  constexpr int64_t kTagBytes = 3;  // of a keyword: its tag and length
  return RowBytes(schema, wanted, kTagBytes + kLimits.keyword_bytes_max, kLimits.list_values_max);
}

MessageBytes ColumnBytes(const RowReader& rows, const WantedAttributes& wanted) {
  MessageBytes bytes;
  for (const int32_t attribute : wanted) {
    const auto name_bytes = static_cast<int64_t>(rows.schema().at(attribute).name.size());
    bytes +=
        {.wire = name_bytes, .held = name_bytes + kColumnBytes + CeilDiv(rows.rows_count(), 8)};
  }
  for (int64_t row = 0; row < rows.rows_count(); ++row) bytes += rows.BytesOf(row, wanted);
  return bytes;
}

void ToProto(const RowReader& rows, int64_t rows_count, const WantedAttributes& wanted,
             google::protobuf::RepeatedPtrField<pb::AttributeColumn>* columns) {
  for (const int32_t attribute : wanted) {
    const AttributeColumn column = rows.Read(attribute, rows_count);
    pb::AttributeColumn* const message = columns->Add();
    message->set_attribute(rows.schema().at(attribute).name);
    ToProto(column.values, message->mutable_values());
    if (std::find(column.present.begin(), column.present.end(), false) != column.present.end()) {
      message->set_presence(PresenceOf(column.present));
    }
    message->mutable_list_sizes()->Add(column.list_sizes.begin(), column.list_sizes.end());
  }
}

int64_t FacetBytesMax(const AttributeSpec& spec, int64_t values_max) {
  return static_cast<int64_t>(spec.name.size()) + kFacetBytes +
         values_max * (ValueBytesMax(spec.type) + kNumberBytes);
}

void ToProto(const std::string& name, const ValueCounts& counts, pb::Facet* facet) {
  facet->set_attribute(name);
  ToProto(counts.values, facet->mutable_values());
  facet->mutable_rows_counts()->Add(counts.rows_counts.begin(), counts.rows_counts.end());
  facet->set_values_count(static_cast<uint64_t>(counts.values_count));
  facet->set_rows_missing(static_cast<uint64_t>(counts.rows_missing));
}

}  // namespace nearfield::server
