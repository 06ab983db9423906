// The values of a filter's text.
#ifndef NEARFIELD_CLIENT_FORMATS_FILTER_VALUES_H_
#define NEARFIELD_CLIENT_FORMATS_FILTER_VALUES_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/formats/filter_words.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// A value of that type as it is written without quotes: a whole number, a decimal, true or false,
// and for timestamps what ParseTimestamp takes or microseconds; a keyword is the text itself.
// Errors: InvalidArgument naming the text and what is expected.
absl::StatusOr<AttributeValue> ParseValue(std::string_view text, AttributeType type);

// A token as a value of that attribute. Errors: InvalidArgument without a place.
absl::StatusOr<AttributeValue> ValueOf(const FilterToken& token, const AttributeSpec& spec);
absl::StatusOr<Id> IdOf(const FilterToken& token, IdType type);

// As a filter's text spells it.
std::string ValueText(const AttributeValue& value);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_FILTER_VALUES_H_
