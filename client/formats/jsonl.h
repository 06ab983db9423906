// One line of a .jsonl file of rows: {"id": ..., "vector": [...], "payload": ...}.
#ifndef NEARFIELD_CLIENT_FORMATS_JSONL_H_
#define NEARFIELD_CLIENT_FORMATS_JSONL_H_

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
  std::vector<float> vector;
  std::string payload;                 // empty where there is none
  std::vector<JsonMember> attributes;  // with values that point into the line
};

// `vector` is required; `id`, `payload` and the attributes may be absent. Any other member, or one
// twice, is an error: most often a misspelling. Errors: InvalidArgument naming the member and the
// reason. Whether an attribute's value is of its type is not asked here.
absl::StatusOr<JsonRow> ParseJsonRow(std::string_view line,
                                     std::span<const AttributeSpec> attributes = {});

// The bytes stored for a JSON value: a string's own text; nothing for null; else the value as
// compact JSON, its numbers and the order of its members as written. Requires a text that CheckJson
// accepts.
std::string PayloadBytes(std::string_view json);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_JSONL_H_
