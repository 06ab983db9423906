#include "server/attributes/filter_values.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/value_text/decimal_text.h"
#include "client/value_text/timestamp_text.h"

namespace nearfield::server {
namespace {

using Kind = FilterToken::Kind;

// Returns the integer that the whole text spells.
template <typename Integer>
std::optional<Integer> ParseInteger(std::string_view text) {
  Integer number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

absl::Status NotA(std::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(QuoteText(text), " ", what));
}

absl::Status AppendUnquoted(const std::string& text, AttributeType type, ValueColumn* values) {
  if (type == AttributeType::kInt64) {
    const auto number = ParseInteger<int64_t>(text);
    if (!number.has_value()) {
      return NotA(text, "is not a whole number -9223372036854775808 .. 9223372036854775807");
    }
    values->AppendInteger(*number);
  } else if (type == AttributeType::kDouble) {
    const std::optional<double> number = ParseDecimal(text);
    if (!number.has_value()) {
      return NotA(text, "is not a number that a double can hold, nor inf or -inf");
    }
    values->AppendDouble(*number);
  } else {
    if (text != "true" && text != "false") return NotA(text, "is neither true nor false");
    values->AppendBool(text == "true");
  }
  return absl::OkStatus();
}

absl::Status AppendTime(const FilterToken& token, ValueColumn* values) {
  // A quoted number is not a time.
  if (token.kind == Kind::kNumber) {
    if (const auto us = ParseInteger<int64_t>(token.text)) {
      values->AppendInteger(*us);
      return absl::OkStatus();
    }
  }
  const absl::StatusOr<Microseconds> time = ParseTimestamp(token.text);
  if (!time.ok()) return NotA(token.text, time.status().message());
  values->AppendInteger(time->time_since_epoch().count());
  return absl::OkStatus();
}

absl::Status Expected(const AttributeSpec& spec) {
  const char* const article = spec.type == AttributeType::kInt64 ? "an " : "a ";
  const char* const example = spec.type == AttributeType::kKeyword     ? ", such as \"de\""
                              : spec.type == AttributeType::kTimestamp ? ", such as \"2024-05-17\""
                              : spec.type == AttributeType::kBool      ? ": true or false"
                                                                       : ", such as 2020";
  return absl::InvalidArgumentError(
      absl::StrCat("expected a value of ", spec.name, ", ", article, NameOf(spec.type), example));
}

}  // namespace

absl::Status AppendValue(const FilterToken& token, const AttributeSpec& spec, ValueColumn* values) {
  const bool number = token.kind == Kind::kNumber;
  const bool word = token.kind == Kind::kWord;
  switch (spec.type) {
    case AttributeType::kInt64:
      if (number) return AppendUnquoted(token.text, spec.type, values);
      break;
    case AttributeType::kDouble:
    case AttributeType::kBool:
      if (number || word) return AppendUnquoted(token.text, spec.type, values);
      break;
    case AttributeType::kKeyword:
      if (token.kind != Kind::kString) break;
      values->AppendKeyword(token.text);
      return absl::OkStatus();
    case AttributeType::kTimestamp:
      if (number || token.kind == Kind::kString) return AppendTime(token, values);
      break;
  }
  return Expected(spec);
}

absl::Status AppendId(const FilterToken& token, IdColumn* ids) {
  if (ids->type() == IdType::kUint64) {
    if (token.kind != Kind::kNumber) {
      return absl::InvalidArgumentError("expected an id, a whole number");
    }
    const auto number = ParseInteger<uint64_t>(token.text);
    if (!number.has_value()) {
      return NotA(token.text, "is not a whole number from 0 to 18446744073709551615, as ids are");
    }
    ids->AppendNumber(*number);
    return absl::OkStatus();
  }
  if (token.kind != Kind::kString) {
    return absl::InvalidArgumentError("expected an id, a text in quotes");
  }
  if (token.text.empty() || token.text.size() > static_cast<size_t>(kIdBytesMax)) {
    return NotA(token.text,
                absl::StrCat("has ", token.text.size(), " bytes, an id has 1 .. ", kIdBytesMax));
  }
  ids->AppendString(token.text);
  return absl::OkStatus();
}

}  // namespace nearfield::server
