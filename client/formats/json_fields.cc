#include "client/formats/json_fields.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kFloatDigits = 8;

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

// Returns the bytes of a string of hexadecimal digits; nullopt for anything else.
std::optional<std::string> HexBytes(std::string_view json) {
  const std::optional<std::string> text = JsonString(json);
  if (!text || text->size() % 2 != 0 || !IsHex(*text)) return std::nullopt;
  return absl::HexStringToBytes(*text);
}

}  // namespace

absl::Status JsonFields::Bad(std::string_view name, std::string_view why) {
  return absl::InvalidArgumentError(Cat("member ", QuoteJson(name), ": ", why));
}

absl::StatusOr<JsonFields> JsonFields::Parse(std::string_view text) {
  NF_RETURN_IF_ERROR(CheckJson(text));
  JsonFields fields;
  NF_ASSIGN_OR_RETURN(fields.members_, JsonMembers(text));
  for (size_t i = 0; i < fields.members_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (fields.members_[i].key == fields.members_[j].key) {
        return Bad(fields.members_[i].key, "twice");
      }
    }
  }
  return fields;
}

absl::Status JsonFields::CheckNames(std::initializer_list<std::string_view> known) const {
  for (const JsonMember& member : members_) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    return Bad(member.key,
               Cat("is not known; the members are ", Joined(known, ", ", std::identity())));
  }
  return absl::OkStatus();
}

std::optional<std::string_view> JsonFields::Find(std::string_view name) const {
  for (const JsonMember& member : members_) {
    if (member.key == name && member.value != "null") return member.value;
  }
  return std::nullopt;
}

absl::StatusOr<std::string_view> JsonFields::Get(std::string_view name) const {
  const std::optional<std::string_view> value = Find(name);
  if (!value) return Bad(name, "absent");
  return *value;
}

absl::StatusOr<JsonFields> JsonFields::Object(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  absl::StatusOr<JsonFields> object = Parse(value);
  if (!object.ok()) return Bad(name, std::string(object.status().message()));
  return object;
}

absl::StatusOr<std::string> JsonFields::Text(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  std::optional<std::string> text = JsonString(value);
  if (!text) return Bad(name, "not a string");
  return *std::move(text);
}

absl::StatusOr<uint64_t> JsonFields::Number(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  const absl::StatusOr<Id> number = JsonId(value);
  if (!number.ok() || TypeOf(*number) != IdType::kUint64) return Bad(name, "not a whole number");
  return std::get<uint64_t>(*number);
}

absl::StatusOr<std::string> JsonFields::Hex(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  std::optional<std::string> bytes = HexBytes(value);
  if (!bytes) return Bad(name, "not bytes in hexadecimal");
  return *std::move(bytes);
}

absl::StatusOr<std::vector<std::string>> JsonFields::HexList(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(value));
  std::vector<std::string> list;
  for (const std::string_view element : elements) {
    std::optional<std::string> bytes = HexBytes(element);
    if (!bytes) return Bad(name, Cat("element ", list.size(), " is not bytes in hexadecimal"));
    list.push_back(*std::move(bytes));
  }
  return list;
}

absl::StatusOr<Id> JsonFields::OneId(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  absl::StatusOr<Id> id = JsonId(value);
  if (!id.ok()) return Bad(name, "not an id");
  return id;
}

absl::StatusOr<IdColumn> JsonFields::Ids(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(value));
  IdColumn ids;
  for (size_t i = 0; i < elements.size(); ++i) {
    const absl::StatusOr<Id> id = JsonId(elements[i]);
    if (!id.ok()) return Bad(name, Cat("element ", i, " is not an id"));
    if (i == 0) ids = EmptyIds(TypeOf(*id));
    if (TypeOf(*id) != TypeOf(ids)) return Bad(name, "ids of two types");
    Append(*id, &ids);
  }
  return ids;
}

absl::StatusOr<std::vector<float>> JsonFields::FloatBits(std::string_view name) const {
  NF_ASSIGN_OR_RETURN(const std::string_view value, Get(name));
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(value));
  std::vector<float> values;
  for (const std::string_view element : elements) {
    const std::optional<std::string> digits = JsonString(element);
    if (!digits || digits->size() != kFloatDigits || !IsHex(*digits)) {
      return Bad(name, Cat("element ", values.size(), " is not the 8 digits of a float32 value"));
    }
    values.push_back(
        std::bit_cast<float>(static_cast<uint32_t>(std::stoul(*digits, nullptr, /*base=*/16))));
  }
  return values;
}

std::string ToHex(std::string_view bytes) {
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

std::string FloatBitsJson(const std::vector<float>& values) {
  return JsonArray(values, [](float value) {
    return absl::StrFormat("\"%08x\"", std::bit_cast<uint32_t>(value));
  });
}

}  // namespace nearfield::client
