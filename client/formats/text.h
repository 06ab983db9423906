// String concatenation, and the text of a value out of range. Debian's absl::StrCat does not accept
// std::string_view; Cat does.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

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

// Returns "FIELD = VALUE, must be MIN .. MAX".
template <typename Value, typename Limit>
std::string OutOfRange(std::string_view field, const Value& value, const Limit& min,
                       const Limit& max) {
  return Cat(field, " = ", value, ", must be ", min, " .. ", max);
}

}  // namespace nearfield::client
