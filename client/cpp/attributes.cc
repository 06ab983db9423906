#include "nearfield/client/attributes.h"

#include <array>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr std::array<std::string_view, 6> kTypeNames = {"unknown", "int64",   "double",
                                                        "bool",    "keyword", "timestamp"};

constexpr std::string_view kExpires = ":expires";

// Appends a value, which must be of the column's type.
void Append(const AttributeValue& value, AttributeValues* values) {
  std::visit(
      [&](auto& column) {
        using Element = typename std::decay_t<decltype(column)>::value_type;
        column.push_back(std::get<Element>(value.variant()));
      },
      *values);
}

}  // namespace

std::string_view Name(AttributeType type) {
  const auto i = static_cast<size_t>(type);
  return i < kTypeNames.size() ? kTypeNames[i] : kTypeNames[0];
}

std::string WithArticle(AttributeType type) {
  const std::string_view name = Name(type);
  const bool vowel = name.find_first_of("aeiou") == 0;
  return Cat(vowel ? "an " : "a ", name);
}

std::optional<AttributeType> ParseAttributeType(std::string_view name) {
  for (size_t i = 1; i < kTypeNames.size(); ++i) {
    if (kTypeNames[i] == name) return static_cast<AttributeType>(i);
  }
  return std::nullopt;
}

std::string ToString(const AttributeSpec& spec) {
  return Cat(spec.name, ":", Name(spec.type), spec.is_list ? "[]" : "",
             spec.expires ? kExpires : "");
}

absl::StatusOr<AttributeSpec> ParseAttributeSpec(std::string_view text) {
  const size_t colon = text.find(':');
  std::string_view type_name = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool expires = type_name.ends_with(kExpires);
  if (expires) type_name.remove_suffix(kExpires.size());
  const bool is_list = type_name.ends_with("[]");
  if (is_list) type_name.remove_suffix(2);
  const std::optional<AttributeType> type = ParseAttributeType(type_name);
  if (!type || colon == 0) {
    return absl::InvalidArgumentError(
        Cat("attribute \"", text,
            "\": write NAME:TYPE, such as year:int64 or tags:keyword[]; the types are int64, "
            "double, bool, keyword and timestamp, each also as a list with []; "
            "until:timestamp:expires deletes rows after that time"));
  }
  return AttributeSpec{.name = std::string(text.substr(0, colon)),
                       .type = *type,
                       .is_list = is_list,
                       .expires = expires};
}

AttributeType TypeOf(const AttributeValues& values) {
  return static_cast<AttributeType>(values.index() + 1);
}

AttributeValues EmptyValues(AttributeType type) {
  switch (type) {
    case AttributeType::kDouble: return std::vector<double>();
    case AttributeType::kBool: return std::vector<bool>();
    case AttributeType::kKeyword: return std::vector<std::string>();
    case AttributeType::kTimestamp: return std::vector<Timestamp>();
    default: return std::vector<int64_t>();
  }
}

size_t Count(const AttributeValues& values) {
  return std::visit([](const auto& column) { return column.size(); }, values);
}

AttributeColumnBuilder::AttributeColumnBuilder(AttributeSpec spec) : spec_(std::move(spec)) {
  static_cast<void>(Take());
}

absl::Status AttributeColumnBuilder::CheckValue(const AttributeValue& value) const {
  if (value.type() == spec_.type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(spec_.name, ": ", WithArticle(value.type()), ", expected ", WithArticle(spec_.type)));
}

absl::Status AttributeColumnBuilder::Add(const AttributeValue& value) {
  if (spec_.is_list) {
    return absl::InvalidArgumentError(Cat(spec_.name, ": one value, expected a list"));
  }
  NF_RETURN_IF_ERROR(CheckValue(value));
  Append(value, &column_.values);
  column_.presence.push_back(true);
  ++rows_with_value_;
  return absl::OkStatus();
}

absl::Status AttributeColumnBuilder::AddList(const std::vector<AttributeValue>& values) {
  if (!spec_.is_list) {
    return absl::InvalidArgumentError(Cat(spec_.name, ": a list, expected one value"));
  }
  for (const AttributeValue& value : values) NF_RETURN_IF_ERROR(CheckValue(value));
  for (const AttributeValue& value : values) Append(value, &column_.values);
  column_.list_sizes.push_back(static_cast<uint32_t>(values.size()));
  column_.presence.push_back(true);
  ++rows_with_value_;
  return absl::OkStatus();
}

void AttributeColumnBuilder::AddMissing() { column_.presence.push_back(false); }

AttributeColumn AttributeColumnBuilder::Take() {
  AttributeColumn taken = std::move(column_);
  if (rows_with_value_ == taken.presence.size()) taken.presence.clear();
  column_ = AttributeColumn{
      .attribute = spec_.name, .values = EmptyValues(spec_.type), .presence = {}, .list_sizes = {}};
  rows_with_value_ = 0;
  return taken;
}

}  // namespace nearfield::client
