// One line of a .jsonl file of rows, or of changes of rows: {"id": ..., "vector": [...], "payload":
// ...}.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/formats/json_text.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

struct JsonRow {
  std::optional<Id> id;
  std::vector<float> vector;           // empty if absent
  std::optional<std::string> payload;  // null is an empty one
  std::vector<JsonMember> attributes;  // values point into the line
};

// Parses a line. `vector` is required; `id`, `payload` and the attributes may be absent. A member
// `embedding` that is no attribute is the vector: so OpenAI names it. Any other member, or one that
// occurs twice, is an error: usually a misspelling. Errors: InvalidArgument
// (names the member and the reason). Does not check the types of attribute values.
absl::StatusOr<JsonRow> ParseJsonRow(std::string_view line,
                                     std::span<const AttributeSpec> attributes = {});

// Parses a line that changes a row: as ParseJsonRow, but `id` is required, and so is an attribute
// or `payload`, while `vector` is an error.
absl::StatusOr<JsonRow> ParseJsonUpdate(std::string_view line,
                                        std::span<const AttributeSpec> attributes);

// Parses the vector of a row, a JSON array of numbers. Requires: a text that CheckJson accepts.
// Errors: InvalidArgument (also for an empty vector).
absl::StatusOr<std::vector<float>> ParseVector(std::string_view json);

// Returns the error for a member or a column that is no part of a row.
absl::Status UnknownPart(std::string_view kind, std::string_view name,
                         std::span<const AttributeSpec> attributes);

// Returns the text of a JSON value: that of a string; empty for null; else the value as compact
// JSON, with its numbers and the order of its members as written. Requires: a text that CheckJson
// accepts.
std::string JsonText(std::string_view json);

// Returns the bytes to store for a JSON value: its JsonText. Only an object with the one member
// "$base64" and a string stands for the bytes that the string encodes. Requires: as JsonText.
// Errors: InvalidArgument (not base64).
absl::StatusOr<std::string> PayloadBytes(std::string_view json);

// Returns the JSON value whose PayloadBytes are `bytes`: the bytes themselves if they are compact
// JSON that is stored as it is, else a string, or {"$base64":"..."} if they are not UTF-8.
std::string PayloadJson(std::string_view bytes);

}  // namespace nearfield::client
