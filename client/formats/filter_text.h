// Filters as text, for the command line and for logs:
//
//   language == "de" and (year >= 2020 or not exists(price)) and tags any ("a", "b") and id in (1,
//   2)
//
//   filter     = both { "or" both }
//   both       = condition { "and" condition }
//   condition  = "not" condition | "(" filter ")" | "exists" "(" name ")"
//              | name ("==" | "!=" | "<" | "<=" | ">" | ">=") value
//              | name ("in" | "any" | "all") "(" value { "," value } ")"
//              | "id" "==" id | "id" "in" "(" id { "," id } ")"
//
// "and" binds more tightly than "or", and "not" more tightly than both. A name that is one of the
// words above, or true or false, is written in backquotes: `id` == 7 refers to an attribute. Values
// have the type that the collection declares for the attribute:
//   int64      2020, -7
//   double     2.5, 2, -1e9, inf, -inf
//   bool       true, false
//   keyword    "de" or 'de', with the escapes of JSON; in '...' also \'
//   timestamp  "2024-05-17", "2024-05-17T09:30:00Z" (timestamp_text.h), or microseconds since 1970
//   ids        numbers, or texts in quotes
// proto/nearfield/v1/common.proto, at Filter, defines which rows pass.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"

namespace nearfield::client {

// The part of a collection's declaration that a filter's text depends on.
struct FilterSchema {
  std::span<const AttributeSpec> attributes;
  IdType id_type = IdType::kUint64;
};

// Parses a filter. Errors: InvalidArgument "column 14: ..." (characters, counted from 1): not a
// filter, an undeclared attribute, a value or an operator of another type, or too many levels.
// Cost: linear in the text; the depth of recursion is bounded.
absl::StatusOr<Filter> ParseFilter(std::string_view text, const FilterSchema& schema);

// Returns a text that ParseFilter, with the collection's schema, parses into an equal filter;
// exception: an `and` or `or` of a single filter becomes that filter. Requires: values that a
// server would accept.
std::string FilterText(const Filter& given);

}  // namespace nearfield::client
