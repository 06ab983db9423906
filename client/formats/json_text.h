// JSON as text: checked by a library, then cut where the values stand, so that numbers, repeated
// members, the order of members and spelling stay as written. No library in Debian keeps these:
// nlohmann and simdjson convert numbers, and simdjson's On-Demand, which does not, skips what is
// not asked for without a check.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/text.h"
#include "client/cpp/utf8.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Checks that `text` is one JSON value (RFC 8259, UTF-8, numbers finite as doubles). Any depth, no
// recursion. Errors: InvalidArgument "column 7: ...".
absl::Status CheckJson(std::string_view text);

// The functions below require a text that CheckJson accepts. For any other text they return an
// unspecified result or an error, but stay in bounds.

// Removes the white space around the value.
std::string_view TrimJson(std::string_view text);

// Removes the white space between tokens; the result is never longer than `text`.
std::string CompactJson(std::string_view text);

struct JsonMember {
  std::string key;         // decoded
  std::string_view value;  // as written, trimmed
};

// Returns the members of an object, in order. Errors: InvalidArgument (not an object).
absl::StatusOr<std::vector<JsonMember>> JsonMembers(std::string_view text);

// Returns the elements of an array, as written, trimmed. Errors: InvalidArgument (not an array).
absl::StatusOr<std::vector<std::string_view>> JsonElements(std::string_view text);

// Decodes a JSON string; nullopt if the text is not a string.
std::optional<std::string> JsonString(std::string_view text);

// Returns the numbers of an array as fp32: each decimal is rounded once, to nearest even. Errors:
// InvalidArgument (names the element that is not a number or is out of range for fp32).
absl::StatusOr<std::vector<float>> JsonFloats(std::string_view text);

// Parses an id: a number 0 .. 2^64 - 1 without sign, fraction or exponent, or a string. Errors:
// InvalidArgument.
absl::StatusOr<Id> JsonId(std::string_view text);

// Returns the JSON array of the elements' JSON.
template <typename Range, typename ToJson>
std::string JsonArray(const Range& range, const ToJson& to_json) {
  return Cat("[", Joined(range, ",", to_json), "]");
}

// Returns any bytes as a JSON string: characters below U+0020 escaped, invalid UTF-8 replaced by
// U+FFFD.
std::string QuoteJson(std::string_view bytes);

}  // namespace nearfield::client
