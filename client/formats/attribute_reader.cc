#include "client/formats/attribute_reader.h"

#include <algorithm>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/value_text/decimal_text.h"
#include "client/value_text/timestamp_text.h"

namespace nearfield::client {
namespace {

constexpr size_t kShownBytesMax = 60;
constexpr size_t kDateBytes = 10;  // 2024-05-17

absl::Status NotA(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(Cat(QuoteJson(text.substr(0, kShownBytesMax)), " ", what));
}

absl::StatusOr<AttributeValue> ParseTime(std::string_view text) {
  const absl::StatusOr<Timestamp> time = ParseTimestamp(text);
  if (time.ok()) return AttributeValue(*time);
  return NotA(text, std::string(time.status().message()));
}

// Parses a value of that type, written without quotes: an integer, a decimal, true or false; for
// timestamps the form of ParseTimestamp or microseconds; a keyword is the text itself. Errors:
// InvalidArgument (names the text and what is expected).
absl::StatusOr<AttributeValue> ParseValue(std::string_view text, AttributeType type) {
  switch (type) {
    case AttributeType::kInt64:
      if (const auto number = ParseNumber<int64_t>(text)) return AttributeValue(*number);
      return NotA(text, "is not a whole number -9223372036854775808 .. 9223372036854775807");
    case AttributeType::kDouble:
      if (const auto number = ParseDecimal(text)) return AttributeValue(*number);
      return NotA(text, "is not a number that a double can hold, nor inf or -inf");
    case AttributeType::kBool:
      if (text == "true" || text == "false") return AttributeValue(text == "true");
      return NotA(text, "is neither true nor false");
    case AttributeType::kKeyword:
      if (IsUtf8(text)) return AttributeValue(text);
      return NotA(text, "is not UTF-8");
    case AttributeType::kTimestamp:
      if (const auto us = ParseNumber<int64_t>(text)) {
        return AttributeValue(Timestamp(std::chrono::microseconds(*us)));
      }
      return ParseTime(text);
    default: return absl::InvalidArgumentError("its type is unknown to this client");
  }
}

// Parses one JSON value that is not null.
absl::StatusOr<AttributeValue> JsonValue(std::string_view json, AttributeType type) {
  const std::optional<std::string> text = JsonString(json);
  const bool bracket = !json.empty() && (json.front() == '[' || json.front() == '{');
  if (bracket || json == "null") {
    return absl::InvalidArgumentError(
        Cat(json.substr(0, 40), " is not a single value; expected ", WithArticle(type)));
  }
  if (!text) {
    if (type != AttributeType::kKeyword) return ParseValue(json, type);
    return absl::InvalidArgumentError(
        Cat(json.substr(0, 40), " is not a string, as a keyword must be"));
  }
  const bool infinity = type == AttributeType::kDouble && (*text == "inf" || *text == "-inf");
  if (type == AttributeType::kKeyword || infinity) return ParseValue(*text, type);
  if (type == AttributeType::kTimestamp) return ParseTime(*text);
  return absl::InvalidArgumentError(
      Cat(json.substr(0, 40), " is a string; expected ", WithArticle(type)));
}

absl::Status AddJson(std::string_view json, AttributeColumnBuilder* builder) {
  const AttributeType type = builder->spec().type;
  if (!builder->spec().is_list) {
    NF_ASSIGN_OR_RETURN(const AttributeValue value, JsonValue(json, type));
    return builder->Add(value);
  }
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(json));
  std::vector<AttributeValue> values;
  values.reserve(elements.size());
  for (const std::string_view element : elements) {
    NF_ASSIGN_OR_RETURN(AttributeValue value, JsonValue(element, type));
    values.push_back(std::move(value));
  }
  return builder->AddList(values);
}

// Returns the text of a cell in the form of ParseValue, which differs from that of pandas.
std::string FromPandas(std::string text, AttributeType type) {
  if (type == AttributeType::kBool && (text == "True" || text == "False")) {
    return text == "True" ? "true" : "false";
  }
  const bool has_time = type == AttributeType::kTimestamp && text.size() > kDateBytes;
  if (has_time && text[kDateBytes] == ' ') text[kDateBytes] = 'T';
  return text;
}

absl::Status AddCell(const CsvCell& cell, AttributeColumnBuilder* builder) {
  const AttributeSpec& spec = builder->spec();
  if (spec.is_list) {
    NF_RETURN_IF_ERROR(CheckJson(cell.text));
    if (TrimJson(cell.text) != "null") return AddJson(TrimJson(cell.text), builder);
    builder->AddMissing();
    return absl::OkStatus();
  }
  NF_ASSIGN_OR_RETURN(const AttributeValue value,
                      ParseValue(FromPandas(cell.text, spec.type), spec.type));
  return builder->Add(value);
}

absl::Status Named(const AttributeSpec& spec, const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(Cat(spec.name, ": ", status.message()));
}

}  // namespace

bool Declares(std::span<const AttributeSpec> specs, std::string_view name) {
  return std::any_of(specs.begin(), specs.end(),
                     [&](const AttributeSpec& spec) { return spec.name == name; });
}

AttributeReader::AttributeReader(const std::vector<AttributeSpec>& specs)
    : named_(specs.size()), rows_with_value_(specs.size(), 0) {
  builders_.reserve(specs.size());
  for (const AttributeSpec& spec : specs) builders_.emplace_back(spec);
}

absl::Status AttributeReader::AddRow(std::span<const JsonMember> members) {
  for (size_t i = 0; i < builders_.size(); ++i) {
    AttributeColumnBuilder& builder = builders_[i];
    const JsonMember* found = nullptr;
    for (const JsonMember& member : members) {
      if (member.key != builder.spec().name) continue;
      if (found != nullptr) return absl::InvalidArgumentError(Cat(member.key, ": given twice"));
      found = &member;
    }
    named_[i].push_back(found != nullptr);
    if (found == nullptr || found->value == "null") {
      builder.AddMissing();
    } else {
      NF_RETURN_IF_ERROR(Named(builder.spec(), AddJson(found->value, &builder)));
    }
  }
  return absl::OkStatus();
}

absl::Status AttributeReader::AddRow(const std::vector<CsvCell>& cells,
                                     const std::vector<size_t>& columns) {
  for (size_t i = 0; i < builders_.size(); ++i) {
    const CsvCell* cell = columns[i] == kNoColumn ? nullptr : &cells[columns[i]];
    named_[i].push_back(cell != nullptr);
    if (cell == nullptr || (cell->text.empty() && !cell->quoted)) {
      builders_[i].AddMissing();
    } else {
      NF_RETURN_IF_ERROR(Named(builders_[i].spec(), AddCell(*cell, &builders_[i])));
    }
  }
  return absl::OkStatus();
}

std::vector<AttributeColumn> AttributeReader::Take() {
  std::vector<AttributeColumn> columns;
  for (size_t i = 0; i < builders_.size(); ++i) {
    const size_t count = builders_[i].rows_with_value();
    rows_with_value_[i] += count;
    AttributeColumn column = builders_[i].Take();
    if (count > 0) columns.push_back(std::move(column));
    named_[i].clear();
  }
  return columns;
}

std::vector<AttributeUpdate> AttributeReader::TakeUpdates() {
  std::vector<AttributeUpdate> updates;
  for (size_t i = 0; i < builders_.size(); ++i) {
    AttributeUpdate update = {.column = builders_[i].Take(),
                              .changed = std::exchange(named_[i], {})};
    const auto changed = std::count(update.changed.begin(), update.changed.end(), true);
    if (changed == std::ssize(update.changed)) update.changed.clear();
    if (changed > 0) updates.push_back(std::move(update));
  }
  return updates;
}

}  // namespace nearfield::client
