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
  AttributeSchema schema;
  for (AttributeSpec& given : specs) {
    const auto number = static_cast<int32_t>(schema.specs_.size());
    schema.specs_.push_back(std::move(given));
    const AttributeSpec& spec = schema.specs_.back();
    if (spec.dropped) continue;
    const std::string field = absl::StrCat("attributes[", number, "]");
    if (!IsName(spec.name)) {
      return ArgumentError(
          field + ".name",
          absl::StrCat(QuoteText(spec.name), " (", spec.name.size(), " bytes) must be 1 .. ",
                       kNameBytesMax, " of a-z 0-9 _ and begin with a letter"),
          QuoteText(spec.name), absl::StrCat("1 .. ", kNameBytesMax, " of a-z 0-9 _"));
    }
    if (!schema.numbers_.emplace(spec.name, number).second) {
      return ArgumentError(field + ".name",
                           absl::StrCat(QuoteText(spec.name), " is declared already"),
                           QuoteText(spec.name));
    }
    if (spec.expires && (spec.type != AttributeType::kTimestamp || spec.is_list)) {
      return ArgumentError(field + ".expires",
                           absl::StrCat(QuoteText(spec.name), " has type ", Describe(spec),
                                        ", must have type timestamp"),
                           Describe(spec), "timestamp");
    }
    if (const auto first = schema.expires(); spec.expires && first.has_value()) {
      return ArgumentError(
          field + ".expires",
          absl::StrCat("rows already expire with ", QuoteText(schema.at(*first).name),
                       ", must be one attribute"),
          QuoteText(spec.name), "one attribute");
    }
    schema.declared_.push_back(number);
  }
  const auto declared = static_cast<int64_t>(schema.declared_.size());
  if (declared > limits.attributes_max) {
    return ArgumentError(
        "attributes", absl::StrCat(declared, " declared, must be at most ", limits.attributes_max),
        absl::StrCat(declared), absl::StrCat(limits.attributes_max));
  }
  if (schema.size() > limits.attributes_ever_max) {
    return ArgumentError(
        "attributes",
        absl::StrCat(schema.size(), " with those that were dropped, must be at most ",
                     limits.attributes_ever_max),
        absl::StrCat(schema.size()), absl::StrCat(limits.attributes_ever_max));
  }
  return schema;
}

absl::StatusOr<AttributeSchema> AttributeSchema::With(const AttributeSpec& spec,
                                                      const AttributeLimits& limits) const {
  std::vector<AttributeSpec> specs = specs_;
  specs.push_back(spec);
  return Create(std::move(specs), limits);
}

absl::StatusOr<AttributeSchema> AttributeSchema::Without(std::string_view name) const {
  const std::optional<int32_t> number = Find(name);
  if (!number.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("attribute: ", QuoteText(name), " is no attribute of the collection"));
  }
  AttributeSchema left = *this;
  left.specs_[static_cast<size_t>(*number)].dropped = true;
  left.numbers_.erase(left.numbers_.find(name));
  std::erase(left.declared_, *number);
  return left;
}

std::optional<int32_t> AttributeSchema::expires() const {
  for (const int32_t number : declared_) {
    if (at(number).expires) return number;
  }
  return std::nullopt;
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
