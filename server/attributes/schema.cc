#include "server/attributes/schema.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"

namespace nearfield::server {
namespace {

constexpr size_t kNameBytesMax = 63;
constexpr size_t kQuotedBytesMax = 64;

bool IsName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_inner = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= kNameBytesMax && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), is_inner);
}

}  // namespace

const char* NameOf(AttributeType type) {
  switch (type) {
    case AttributeType::kInt64: return "int64";
    case AttributeType::kDouble: return "double";
    case AttributeType::kBool: return "bool";
    case AttributeType::kKeyword: return "keyword";
    case AttributeType::kTimestamp: return "timestamp";
  }
  return "?";
}

std::string Describe(const AttributeSpec& spec) {
  return absl::StrCat(spec.is_list ? "list of " : "", NameOf(spec.type));
}

absl::StatusOr<AttributeSchema> AttributeSchema::Create(std::vector<AttributeSpec> specs,
                                                        const AttributeLimits& limits) {
  if (static_cast<int64_t>(specs.size()) > limits.attributes_max) {
    return ArgumentError(
        "attributes",
        absl::StrCat(specs.size(), " declared, must be at most ", limits.attributes_max),
        absl::StrCat(specs.size()), absl::StrCat(limits.attributes_max));
  }
  AttributeSchema schema;
  for (const AttributeSpec& spec : specs) {
    const int32_t number = static_cast<int32_t>(schema.numbers_.size());
    if (!IsName(spec.name)) {
      return ArgumentError(
          absl::StrCat("attributes[", number, "].name"),
          absl::StrCat(QuoteText(spec.name), " (", spec.name.size(), " bytes) must be 1 .. ",
                       kNameBytesMax, " of a-z 0-9 _ and begin with a letter"),
          QuoteText(spec.name), absl::StrCat("1 .. ", kNameBytesMax, " of a-z 0-9 _"));
    }
    if (!schema.numbers_.emplace(spec.name, number).second) {
      return ArgumentError(absl::StrCat("attributes[", number, "].name"),
                           absl::StrCat(QuoteText(spec.name), " is declared already"),
                           QuoteText(spec.name));
    }
  }
  schema.specs_ = std::move(specs);
  return schema;
}

std::optional<int32_t> AttributeSchema::Find(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::string QuoteText(std::string_view text) {
  const bool cut = text.size() > kQuotedBytesMax;
  const absl::string_view shown(text.data(), cut ? kQuotedBytesMax : text.size());
  return absl::StrCat("\"", absl::CHexEscape(shown), cut ? "\"..." : "\"");
}

}  // namespace nearfield::server
