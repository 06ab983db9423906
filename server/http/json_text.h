// Numbers and texts of JSON.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace nearfield::server {

// Returns the size of the number at the start of `text`, by the grammar of JSON; 0: there is none.
size_t JsonNumberSize(std::string_view text);

// Returns the number, rounded to the nearest double; nullopt: it is none, or too large for a
// double.
std::optional<double> JsonReal(std::string_view text);

// Returns the number if it is whole and of the type: "12", "1e3".
template <typename Whole>
std::optional<Whole> JsonWhole(std::string_view text) {
  if (JsonNumberSize(text) != text.size()) return std::nullopt;
  Whole value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  if (text.find_first_of(".eE") == std::string_view::npos) return std::nullopt;
  const std::optional<double> real = JsonReal(text);
  constexpr int kBits = std::numeric_limits<Whole>::digits;
  constexpr auto kEnd = static_cast<double>(Whole{1} << (kBits - 1)) * 2;
  constexpr auto kBegin = static_cast<double>(std::numeric_limits<Whole>::min());
  if (!real.has_value() || std::trunc(*real) != *real || *real < kBegin || *real >= kEnd) {
    return std::nullopt;
  }
  return static_cast<Whole>(*real);
}

// Replaces the escapes of a text without its quotes, in which a character follows each backslash.
// The result is never longer. Returns false if an escape is unknown. A surrogate without its other
// half becomes text that is not UTF-8.
bool UnescapeJson(std::string_view raw, std::string* text);

}  // namespace nearfield::server
