// Values and ids in a filter: those that its text spells, and those of its arguments.
#pragma once

#include "absl/status/status.h"
#include "nearfield/engine/id_column.h"
#include "server/attributes/filter_text.h"
#include "server/attributes/filter_tokens.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// Appends the value that the token spells. Requires: `values` has the type of the attribute.
// Errors: InvalidArgument (the reason, without the column).
absl::Status AppendValue(const FilterToken& token, const AttributeSpec& spec, ValueColumn* values);

// Appends the id that the token spells. Errors: InvalidArgument (the reason, without the column).
absl::Status AppendId(const FilterToken& token, IdColumn* ids);

// Append all values or ids of an argument. Requires: `values` has the type of the attribute.
// Errors: InvalidArgument (the reason, such as "a keyword, year is an int64").
absl::Status AppendValues(const FilterArgument& argument, const AttributeSpec& spec,
                          ValueColumn* values);
absl::Status AppendIds(const FilterArgument& argument, IdColumn* ids);
// Errors: InvalidArgument, as above (it does not have exactly one value or id).
absl::Status CheckOne(const FilterArgument& argument);

}  // namespace nearfield::server
