// Filters as text. proto/nearfield/v1/common.proto, "Filters as text", has the grammar.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/engine/types.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// The field of the requests that has the text. Errors name it.
inline constexpr char kFilterTextField[] = "filter_text";

// Parses a filter to the tree that the equal message has. ValidateFilter() accepts it with the same
// schema and limits. Errors: InvalidArgument "filter_text: column 14: ..." (in characters, from 1):
// not a filter, an attribute that is not declared, a value or an operator of another type, a limit
// exceeded. Cost: linear in the text; at most 64 levels of recursion.
absl::StatusOr<FilterTree> ParseFilterText(std::string_view text, IdType id_type,
                                           const AttributeSchema& schema,
                                           const AttributeLimits& limits);

// Returns an upper bound on the memory that parsing and checking this text takes.
int64_t FilterTextMemoryMax(std::string_view text, const AttributeLimits& limits);

}  // namespace nearfield::server
