// Values and ids in a filter as text.
#pragma once

#include "absl/status/status.h"
#include "nearfield/engine/id_column.h"
#include "server/attributes/filter_tokens.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// Appends the value that the token spells. Requires: `values` has the type of the attribute.
// Errors: InvalidArgument (the reason, without the column).
absl::Status AppendValue(const FilterToken& token, const AttributeSpec& spec, ValueColumn* values);

// Appends the id that the token spells. Errors: InvalidArgument (the reason, without the column).
absl::Status AppendId(const FilterToken& token, IdColumn* ids);

}  // namespace nearfield::server
