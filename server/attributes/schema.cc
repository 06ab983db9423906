#include "server/attributes/schema.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"

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
  for (AttributeSpec& spec : specs) {
    const std::string field = absl::StrCat("attributes[", schema.size(), "]");
    ABSL_RETURN_IF_ERROR(schema.Add(std::move(spec), field));
  }
  ABSL_RETURN_IF_ERROR(schema.CheckCount("attributes", limits));
  return schema;
}

absl::Status AttributeSchema::Add(AttributeSpec given, const std::string& field) {
  const int32_t number = size();
  const std::optional<int32_t> expiring = expires();
  specs_.push_back(std::move(given));
  const AttributeSpec& spec = specs_.back();
  if (spec.dropped) return absl::OkStatus();
  const std::string name = QuoteText(spec.name);
  if (!IsName(spec.name)) {
    const std::string limit = absl::StrCat("1 .. ", kNameBytesMax, " of a-z 0-9 _");
    return ArgumentError(field + ".name",
                         absl::StrCat(name, " (", spec.name.size(), " bytes) must be ", limit,
                                      " and begin with a letter"),
                         name, limit);
  }
  if (!numbers_.emplace(spec.name, number).second) {
    return ArgumentError(field + ".name", name + " is declared already", name);
  }
  if (spec.expires && (spec.type != AttributeType::kTimestamp || spec.is_list)) {
    return ArgumentError(
        field + ".expires",
        absl::StrCat(name, " has type ", Describe(spec), ", must have type timestamp"),
        Describe(spec), "timestamp");
  }
  if (spec.expires && expiring.has_value()) {
    return ArgumentError(field + ".expires",
                         absl::StrCat("rows already expire with ", QuoteText(at(*expiring).name),
                                      ", must be one attribute"),
                         name, "one attribute");
  }
  declared_.push_back(number);
  return absl::OkStatus();
}

absl::Status AttributeSchema::CheckCount(const std::string& field,
                                         const AttributeLimits& limits) const {
  const auto declared = static_cast<int64_t>(declared_.size());
  if (declared > limits.attributes_max) {
    return ArgumentError(
        field, absl::StrCat(declared, " declared, must be at most ", limits.attributes_max),
        absl::StrCat(declared), absl::StrCat(limits.attributes_max));
  }
  if (size() > limits.attributes_ever_max) {
    return ArgumentError(field,
                         absl::StrCat(size(), " with those that were dropped, must be at most ",
                                      limits.attributes_ever_max),
                         absl::StrCat(size()), absl::StrCat(limits.attributes_ever_max));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttributeSchema> AttributeSchema::With(const AttributeSpec& spec,
                                                      const AttributeLimits& limits) const {
  AttributeSchema more = *this;
  ABSL_RETURN_IF_ERROR(more.Add(spec, "attribute"));
  ABSL_RETURN_IF_ERROR(more.CheckCount("attribute", limits));
  return more;
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

std::string QuoteId(const IdColumn& ids, int64_t index) {
  return ids.type() == IdType::kUint64 ? absl::StrCat(ids.number(index))
                                       : QuoteText(ids.string(index));
}

}  // namespace nearfield::server
