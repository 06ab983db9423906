// Concatenated and joined texts, numbers in texts, and the text of a value out of range. Debian's
// absl::StrCat does not accept std::string_view; Cat does.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace nearfield::client {

// Converts an argument to a type that absl accepts.
template <typename T>
decltype(auto) AbslArgument(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return absl::string_view(value.data(), value.size());
  } else {
    return (value);
  }
}

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  return absl::StrCat(AbslArgument(parts)...);
}

// Returns the texts of all elements with `separator` between them.
template <typename Range, typename TextOf>
std::string Joined(const Range& range, std::string_view separator, const TextOf& text_of) {
  std::string text;
  std::string_view before;
  for (const auto& element : range) text += Cat(std::exchange(before, separator), text_of(element));
  return text;
}

// Returns the number that the whole text spells, or nullopt.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, int base = 10) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// Returns "FIELD = VALUE, must be MIN .. MAX".
template <typename Value, typename Limit>
std::string OutOfRange(std::string_view field, const Value& value, const Limit& min,
                       const Limit& max) {
  return Cat(field, " = ", value, ", must be ", min, " .. ", max);
}

}  // namespace nearfield::client
