// InvalidArgument statuses with machine-readable details: the field, its value and the limit.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace nearfield {

// Details of an invalid argument. A member is empty if it cannot be given in a few words; then only
// the message has it.
struct ArgumentFacts {
  std::string field;
  std::string value;  // a number, a name, or "absent"
  std::string limit;  // "4096" or "1 .. 4096"
};

// Names of the status payloads that hold the details.
inline constexpr char kArgumentFieldPayload[] = "nearfield/argument-field";
inline constexpr char kArgumentValuePayload[] = "nearfield/argument-value";
inline constexpr char kArgumentLimitPayload[] = "nearfield/argument-limit";

// Returns the status with these details added; existing details stay.
inline absl::Status WithArgument(absl::Status status, const ArgumentFacts& facts) {
  const auto add = [&status](const char* name, const std::string& text) {
    if (!text.empty() && !status.GetPayload(name)) status.SetPayload(name, absl::Cord(text));
  };
  if (!absl::IsInvalidArgument(status)) return status;
  add(kArgumentFieldPayload, facts.field);
  add(kArgumentValuePayload, facts.value);
  add(kArgumentLimitPayload, facts.limit);
  return status;
}

// Returns InvalidArgument with the message "field: problem".
inline absl::Status ArgumentError(const std::string& field, const std::string& problem,
                                  const std::string& value = "", const std::string& limit = "") {
  return WithArgument(absl::InvalidArgumentError(absl::StrCat(field, ": ", problem)),
                      {.field = field, .value = value, .limit = limit});
}

// Returns InvalidArgument with the message "field = value, must be limit".
inline absl::Status MustBe(const std::string& field, const std::string& value,
                           const std::string& limit) {
  return WithArgument(
      absl::InvalidArgumentError(absl::StrCat(field, " = ", value, ", must be ", limit)),
      {.field = field, .value = value, .limit = limit});
}

// Returns the details that these functions added to a status; empty if it has none.
inline ArgumentFacts ArgumentFactsOf(const absl::Status& status) {
  const auto get = [&status](const char* name) {
    const auto payload = status.GetPayload(name);
    return payload ? std::string(*payload) : std::string();
  };
  return {.field = get(kArgumentFieldPayload),
          .value = get(kArgumentValuePayload),
          .limit = get(kArgumentLimitPayload)};
}

}  // namespace nearfield
