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
// "and" binds closer than "or", "not" closer than both. A name that is one of the words above, or
// true or false, stands in backquotes: `id` == 7 asks for an attribute. Values have the type that
// the collection declares for the attribute:
//   int64      2020, -7
//   double     2.5, 2, -1e9, inf, -inf
//   bool       true, false
//   keyword    "de" or 'de', with the escapes of JSON; in '...' also \'
//   timestamp  "2024-05-17", "2024-05-17T09:30:00Z" (timestamp_text.h), or microseconds since 1970
//   ids        numbers, or texts in quotes
// What is true for which row: proto/nearfield/v1/common.proto, at Filter.
#ifndef NEARFIELD_CLIENT_FORMATS_FILTER_TEXT_H_
#define NEARFIELD_CLIENT_FORMATS_FILTER_TEXT_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"

namespace nearfield::client {

// What a collection declares.
struct FilterSchema {
  std::span<const AttributeSpec> attributes;
  IdType id_type = IdType::kUint64;
};

// Errors: InvalidArgument "column 14: ..." (characters, counted from 1): not a filter, an attribute
// that is not declared, a value or an operator that is not of its type, or too many levels. Linear
// in the text; depth, and so the stack, is bounded.
absl::StatusOr<Filter> ParseFilter(std::string_view text, const FilterSchema& schema);

// A text that ParseFilter, given the collection's schema, reads as an equal filter; but that an
// `and` or `or` of a single filter is read as that filter. Requires values that a server would
// take.
std::string FilterText(const Filter& given);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_FILTER_TEXT_H_
