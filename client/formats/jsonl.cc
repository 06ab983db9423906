#include "client/formats/jsonl.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/attribute_reader.h"

namespace nearfield::client {

namespace {

constexpr std::string_view kBase64Begin = "{\"$base64\":";

// Parses a line with any of the parts of a row.
absl::StatusOr<JsonRow> ParseParts(std::string_view line,
                                   std::span<const AttributeSpec> attributes) {
  NF_RETURN_IF_ERROR(CheckJson(line));
  NF_ASSIGN_OR_RETURN(const std::vector<JsonMember> members, JsonMembers(line));
  JsonRow row;
  for (const JsonMember& member : members) {
    const bool is_vector =
        member.key == "vector" || (member.key == "embedding" && !Declares(attributes, member.key));
    if ((is_vector && !row.vector.empty()) || (member.key == "payload" && row.payload) ||
        (member.key == "id" && row.id)) {
      return absl::InvalidArgumentError(
          Cat("member ", QuoteJson(member.key),
              member.key == "embedding" ? " is a second vector" : " twice"));
    }
    if (is_vector) {
      NF_ASSIGN_OR_RETURN(row.vector, ParseVector(member.value));
    } else if (member.key == "payload") {
      NF_ASSIGN_OR_RETURN(row.payload, PayloadBytes(member.value));
    } else if (member.key == "id") {
      NF_ASSIGN_OR_RETURN(row.id, JsonId(member.value));
    } else if (Declares(attributes, member.key)) {
      row.attributes.push_back(member);
    } else {
      return UnknownPart("member", member.key, attributes);
    }
  }
  return row;
}

}  // namespace

absl::StatusOr<std::vector<float>> ParseVector(std::string_view json) {
  absl::StatusOr<std::vector<float>> values = JsonFloats(json);
  if (!values.ok()) {
    return absl::InvalidArgumentError(Cat("vector: ", values.status().message()));
  }
  if (values->empty()) return absl::InvalidArgumentError("vector: empty");
  return values;
}

absl::Status UnknownPart(std::string_view kind, std::string_view name,
                         std::span<const AttributeSpec> attributes) {
  std::string parts = "id, vector, payload";
  for (const AttributeSpec& spec : attributes) parts += Cat(", ", spec.name);
  return absl::InvalidArgumentError(
      Cat("unknown ", kind, " ", QuoteJson(name), "; a row has ", parts));
}

std::string JsonText(std::string_view json) {
  const std::string_view trimmed = TrimJson(json);
  if (trimmed == "null") return "";
  if (std::optional<std::string> text = JsonString(trimmed)) return *std::move(text);
  return CompactJson(trimmed);
}

absl::StatusOr<std::string> PayloadBytes(std::string_view json) {
  std::string text = JsonText(json);
  const bool is_string = TrimJson(json).starts_with('"');
  if (is_string || !text.starts_with(kBase64Begin)) return text;
  NF_ASSIGN_OR_RETURN(const std::vector<JsonMember> members, JsonMembers(text));
  if (members.size() != 1) return text;
  const std::optional<std::string> encoded = JsonString(members[0].value);
  if (!encoded) return text;
  std::string bytes;
  if (absl::Base64Unescape(*encoded, &bytes)) return bytes;
  return absl::InvalidArgumentError(
      Cat("payload: ", QuoteJson(encoded->substr(0, 40)), " is not base64"));
}

std::string PayloadJson(std::string_view bytes) {
  // nlohmann accepts a byte order mark before a value, where a line would lose it.
  const bool value = !bytes.empty() && static_cast<uint8_t>(bytes.front()) < 0x80;
  if (value && CheckJson(bytes).ok()) {
    const absl::StatusOr<std::string> stored = PayloadBytes(bytes);
    if (stored.ok() && *stored == bytes) return std::string(bytes);
  }
  if (IsUtf8(bytes)) return QuoteJson(bytes);
  return Cat(kBase64Begin,
             QuoteJson(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()))), "}");
}

absl::StatusOr<JsonRow> ParseJsonRow(std::string_view line,
                                     std::span<const AttributeSpec> attributes) {
  NF_ASSIGN_OR_RETURN(JsonRow row, ParseParts(line, attributes));
  if (row.vector.empty()) return absl::InvalidArgumentError("no \"vector\"");
  return row;
}

absl::StatusOr<JsonRow> ParseJsonUpdate(std::string_view line,
                                        std::span<const AttributeSpec> attributes) {
  NF_ASSIGN_OR_RETURN(JsonRow row, ParseParts(line, attributes));
  if (!row.id) return absl::InvalidArgumentError("no \"id\"");
  if (!row.vector.empty()) {
    return absl::InvalidArgumentError(
        "vector: an update cannot change it; upload the row with --mode upsert");
  }
  if (row.attributes.empty() && !row.payload) {
    return absl::InvalidArgumentError("nothing to change: neither an attribute nor a payload");
  }
  return row;
}

}  // namespace nearfield::client
