#include "client/formats/filter_values.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "client/formats/id_file.h"
#include "client/formats/json_text.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"
#include "client/formats/timestamp_text.h"

namespace nearfield::client {
namespace {

using Kind = FilterToken::Kind;

constexpr size_t kShownBytesMax = 60;

// Parses a decimal, rounded once, to nearest even; nullopt if it is out of range. Infinities are
// words.
std::optional<double> Decimal(std::string_view text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  // from_chars would also accept words such as "nan".
  if (text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) return std::nullopt;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ptr != end || text.empty()) return std::nullopt;
  if (parsed.ec == std::errc()) return number;
  // Too large, or so small that it rounds to a denormal or to zero.
  const double wide = std::strtod(std::string(text).c_str(), nullptr);
  if (parsed.ec != std::errc::result_out_of_range || std::fabs(wide) > 1.0) return std::nullopt;
  return wide;
}

absl::Status NotA(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(Cat(QuoteJson(text.substr(0, kShownBytesMax)), " is ", what));
}

}  // namespace

absl::StatusOr<AttributeValue> ParseValue(std::string_view text, AttributeType type) {
  switch (type) {
    case AttributeType::kInt64:
      if (const auto number = ParseNumber<int64_t>(text)) return AttributeValue(*number);
      return NotA(text, "not a whole number -9223372036854775808 .. 9223372036854775807");
    case AttributeType::kDouble:
      if (const auto number = Decimal(text)) return AttributeValue(*number);
      return NotA(text, "not a number that a double can hold, nor inf or -inf");
    case AttributeType::kBool:
      if (text == "true" || text == "false") return AttributeValue(text == "true");
      return NotA(text, "neither true nor false");
    case AttributeType::kKeyword:
      if (IsUtf8(text)) return AttributeValue(text);
      return NotA(text, "not UTF-8");
    case AttributeType::kTimestamp: {
      if (const auto us = ParseNumber<int64_t>(text)) {
        return AttributeValue(Timestamp(std::chrono::microseconds(*us)));
      }
      NF_ASSIGN_OR_RETURN(const Timestamp time, ParseTimestamp(text));
      return AttributeValue(time);
    }
    default: return absl::InvalidArgumentError("its type is unknown to this client");
  }
}

absl::StatusOr<AttributeValue> ValueOf(const FilterToken& token, const AttributeSpec& spec) {
  const AttributeType type = spec.type;
  const bool timestamp = type == AttributeType::kTimestamp;
  const bool quoted = type == AttributeType::kKeyword || timestamp;
  if (token.kind == Kind::kString && quoted) {
    // A quoted number is not a timestamp.
    if (!timestamp) return AttributeValue(token.text);
    NF_ASSIGN_OR_RETURN(const Timestamp time, ParseTimestamp(token.text));
    return AttributeValue(time);
  }
  const bool word =
      token.kind == Kind::kWord && (type == AttributeType::kBool || type == AttributeType::kDouble);
  const bool number = token.kind == Kind::kNumber && (!quoted || timestamp);
  if (word || number) return ParseValue(token.text, type);
  const std::string_view example = type == AttributeType::kKeyword   ? ", such as \"de\""
                                   : timestamp                       ? ", such as \"2024-05-17\""
                                   : type == AttributeType::kBool    ? ": true or false"
                                   : type == AttributeType::kUnknown ? ", unknown to this client"
                                                                     : ", such as 2020";
  return absl::InvalidArgumentError(
      Cat("expected a value of ", spec.name, ", ", WithArticle(type), example));
}

absl::StatusOr<Id> IdOf(const FilterToken& token, IdType type) {
  const bool text = type == IdType::kString;
  if (token.kind != (text ? Kind::kString : Kind::kNumber)) {
    return absl::InvalidArgumentError(text ? "expected an id, a text in quotes"
                                           : "expected an id, a whole number");
  }
  return ParseId(token.text, type);
}

std::string ValueText(const AttributeValue& value) {
  const AttributeValue::Variant& variant = value.variant();
  if (const auto* number = std::get_if<int64_t>(&variant)) return std::to_string(*number);
  if (const auto* truth = std::get_if<bool>(&variant)) return *truth ? "true" : "false";
  if (const auto* keyword = std::get_if<std::string>(&variant)) return QuoteJson(*keyword);
  if (const auto* time = std::get_if<Timestamp>(&variant)) {
    return HasTimestampText(*time) ? Cat("\"", TimestampText(*time), "\"") : TimestampText(*time);
  }
  const double real = std::get<double>(variant);
  char text[40];
  const auto written = std::to_chars(std::begin(text), std::end(text), real);
  return std::string(std::begin(text), written.ptr);
}

}  // namespace nearfield::client
