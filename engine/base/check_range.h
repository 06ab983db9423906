// Checks of a number against its limits and of an enumerator, with one message for the whole tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/argument_error.h"

namespace nearfield {

// Returns InvalidArgument "FIELD = VALUE, must be MIN .. MAX"; "must be at least MIN" if `max` is
// that of int64_t.
inline absl::Status RangeError(absl::string_view field, int64_t value, int64_t min, int64_t max) {
  const bool bounded = max < std::numeric_limits<int64_t>::max();
  return MustBe(std::string(field), absl::StrCat(value),
                bounded ? absl::StrCat(min, " .. ", max) : absl::StrCat("at least ", min));
}

// Returns OK if min <= value <= max, else RangeError.
inline absl::Status CheckRange(absl::string_view field, int64_t value, int64_t min, int64_t max) {
  return value >= min && value <= max ? absl::OkStatus() : RangeError(field, value, min, max);
}

// Returns OK if `value` is one of `all`, else InvalidArgument "FIELD = NUMBER is none: NAMES".
template <typename Enum>
absl::Status CheckOneOf(absl::string_view field, Enum value, std::initializer_list<Enum> all,
                        absl::string_view names) {
  if (std::find(all.begin(), all.end(), value) != all.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " = ", static_cast<int>(value), " is none: ", names));
}

}  // namespace nearfield
