// Values in the text of a filter.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/formats/filter_words.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Parses a value of that type, written without quotes: an integer, a decimal, true or false; for
// timestamps the form of ParseTimestamp or microseconds; a keyword is the text itself. Errors:
// InvalidArgument (names the text and what is expected).
absl::StatusOr<AttributeValue> ParseValue(std::string_view text, AttributeType type);

// Converts a token to a value of that attribute. Errors: InvalidArgument (without a column).
absl::StatusOr<AttributeValue> ValueOf(const FilterToken& token, const AttributeSpec& spec);
absl::StatusOr<Id> IdOf(const FilterToken& token, IdType type);

// Returns the value as it is written in a filter.
std::string ValueText(const AttributeValue& value);

}  // namespace nearfield::client
