// Parses filters. proto/nearfield/v1/common.proto, "Filters", has the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/id_column.h"
#include "nearfield/engine/types.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// The fields of a request that have the text and its arguments. Errors name them.
struct FilterFields {
  std::string text = "filter_text";
  std::string arguments = "filter_args";
};

// The meaning of $1, $2, ... in a text: values of one type, no NaN among them, or ids of the
// collection's type. Values of an argument that has none may be of any type.
using FilterArgument = std::variant<ValueColumn, IdColumn>;

// Parses a filter. Errors: InvalidArgument "filter_text: column 14: ..." (in characters, from 1):
// not a filter, an attribute that is not declared, a value or an operator of another type, an
// argument that there is not, a limit exceeded; "filter_args[2]: ...": the text does not name it.
// Cost: linear in the text and the arguments that it names; at most 64 levels of recursion.
absl::StatusOr<FilterTree> ParseFilterText(std::string_view text,
                                           absl::Span<const FilterArgument> arguments,
                                           IdType id_type, const AttributeSchema& schema,
                                           const AttributeLimits& limits,
                                           const FilterFields& fields = {});

// The most values or ids of one argument, and the most bytes of those of one argument.
struct ArgumentSize {
  int64_t values = 0;
  int64_t bytes = 0;
};

// Returns an upper bound on the memory that parsing this text and its Filter take.
int64_t FilterTextMemoryMax(std::string_view text, const ArgumentSize& argument,
                            const AttributeLimits& limits);

}  // namespace nearfield::server
