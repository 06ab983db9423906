// JSON as text: checked by a real parser, then cut by position, so that numbers, the order of
// members and spelling stay as written.
#ifndef NEARFIELD_CLIENT_FORMATS_JSON_TEXT_H_
#define NEARFIELD_CLIENT_FORMATS_JSON_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/formats/utf8.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Whether `text` is one JSON value (RFC 8259, UTF-8, numbers finite as doubles). Any depth, no
// recursion. Errors: InvalidArgument "column 7: ...".
absl::Status CheckJson(std::string_view text);

// The functions below require a text that CheckJson accepts; for any other they return nonsense or
// an error, but stay in bounds.

// Without the white space around the value.
std::string_view TrimJson(std::string_view text);

// Without the white space between tokens; never longer than `text`.
std::string CompactJson(std::string_view text);

struct JsonMember {
  std::string key;         // decoded
  std::string_view value;  // as written, trimmed
};

// Members of an object, in order. Errors: InvalidArgument where the text is no object.
absl::StatusOr<std::vector<JsonMember>> JsonMembers(std::string_view text);

// Elements of an array, as written, trimmed. Errors: InvalidArgument where the text is no array.
absl::StatusOr<std::vector<std::string_view>> JsonElements(std::string_view text);

// The string that a JSON string stands for; nothing where the text is no string.
std::optional<std::string> JsonString(std::string_view text);

// Numbers of an array as fp32: each decimal is rounded once, to nearest even.
// Errors: InvalidArgument naming the element that is no number or lies beyond fp32.
absl::StatusOr<std::vector<float>> JsonFloats(std::string_view text);

// A number 0 .. 2^64 - 1 written without sign, fraction or exponent, or a string. Errors:
// InvalidArgument.
absl::StatusOr<Id> JsonId(std::string_view text);

// Any bytes as a JSON string: control characters escaped, invalid UTF-8 replaced by U+FFFD.
std::string QuoteJson(std::string_view bytes);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_JSON_TEXT_H_
