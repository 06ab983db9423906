#include "server/attributes/filter_values.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/value_text/decimal_text.h"
#include "client/value_text/timestamp_text.h"
#include "engine/base/status_macros.h"

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
  if (type == AttributeType::kInt64 || type == AttributeType::kTimestamp) {
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

absl::Status AppendTime(std::string_view text, ValueColumn* values) {
  const absl::StatusOr<Microseconds> time = ParseTimestamp(text);
  if (!time.ok()) return NotA(text, time.status().message());
  values->AppendInteger(time->time_since_epoch().count());
  return absl::OkStatus();
}

const char* ArticleOf(AttributeType type) { return type == AttributeType::kInt64 ? "an " : "a "; }

absl::Status AppendId(std::string_view text, IdColumn* ids) {
  if (text.empty() || text.size() > static_cast<size_t>(kIdBytesMax)) {
    return NotA(text, absl::StrCat("has ", text.size(), " bytes, an id has 1 .. ", kIdBytesMax));
  }
  ids->AppendString(text);
  return absl::OkStatus();
}

absl::Status AppendId(int64_t number, IdColumn* ids) {
  if (number < 0) return NotA(absl::StrCat(number), "is negative");
  ids->AppendNumber(static_cast<uint64_t>(number));
  return absl::OkStatus();
}

absl::Status Expected(const AttributeSpec& spec) {
  const char* const example = spec.type == AttributeType::kKeyword     ? ", such as \"de\""
                              : spec.type == AttributeType::kTimestamp ? ", such as \"2024-05-17\""
                              : spec.type == AttributeType::kBool      ? ": true or false"
                                                                       : ", such as 2020";
  return absl::InvalidArgumentError(absl::StrCat("expected a value of ", spec.name, ", ",
                                                 ArticleOf(spec.type), NameOf(spec.type), example));
}

// Appends a value of an argument, whose type is not that of the attribute.
absl::Status AppendOther(const ValueColumn& from, int64_t index, const AttributeSpec& spec,
                         ValueColumn* values) {
  if (from.type() == AttributeType::kInt64 && spec.type == AttributeType::kTimestamp) {
    values->AppendInteger(from.bits(index));
    return absl::OkStatus();
  }
  if (from.type() == AttributeType::kKeyword && spec.type == AttributeType::kTimestamp) {
    return AppendTime(from.keyword(index), values);
  }
  if (from.type() == AttributeType::kInt64 && spec.type == AttributeType::kDouble) {
    const auto number = static_cast<double>(from.bits(index));
    // 2^63 is the one double that is not an int64 and that rounding can reach.
    if (number < 0x1p63 && static_cast<int64_t>(number) == from.bits(index)) {
      values->AppendDouble(number);
      return absl::OkStatus();
    }
    return NotA(absl::StrCat(from.bits(index)),
                absl::StrCat("is not exactly a double, as ", spec.name, " is"));
  }
  return absl::InvalidArgumentError(absl::StrCat(ArticleOf(from.type()), NameOf(from.type()), ", ",
                                                 spec.name, " is ", ArticleOf(spec.type),
                                                 NameOf(spec.type)));
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
      if (token.kind == Kind::kString) return AppendTime(token.text, values);
      if (number) return AppendUnquoted(token.text, spec.type, values);
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
  return AppendId(token.text, ids);
}

absl::Status AppendValues(const FilterArgument& argument, const AttributeSpec& spec,
                          ValueColumn* values) {
  const auto* const from = std::get_if<ValueColumn>(&argument);
  if (from == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("ids, ", spec.name, " is ", ArticleOf(spec.type), NameOf(spec.type)));
  }
  for (int64_t i = 0; i < from->size(); ++i) {
    if (from->type() == spec.type) {
      values->AppendFrom(*from, i);
    } else {
      ABSL_RETURN_IF_ERROR(AppendOther(*from, i, spec, values));
    }
  }
  return absl::OkStatus();
}

absl::Status AppendIds(const FilterArgument& argument, IdColumn* ids) {
  if (const auto* const from = std::get_if<IdColumn>(&argument)) {
    for (int64_t i = 0; i < from->size(); ++i) ids->AppendFrom(*from, i);
    return absl::OkStatus();
  }
  const auto& values = std::get<ValueColumn>(argument);
  const bool numbers = ids->type() == IdType::kUint64;
  for (int64_t i = 0; i < values.size(); ++i) {
    if (values.type() != (numbers ? AttributeType::kInt64 : AttributeType::kKeyword)) {
      return absl::InvalidArgumentError(absl::StrCat(ArticleOf(values.type()),
                                                     NameOf(values.type()), ", ids are ",
                                                     numbers ? "numbers" : "texts"));
    }
    ABSL_RETURN_IF_ERROR(numbers ? AppendId(values.bits(i), ids)
                                 : AppendId(values.keyword(i), ids));
  }
  return absl::OkStatus();
}

absl::Status CheckOne(const FilterArgument& argument) {
  const int64_t size = std::visit([](const auto& column) { return column.size(); }, argument);
  if (size == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(size, " values, must be 1 here"));
}

}  // namespace nearfield::server
