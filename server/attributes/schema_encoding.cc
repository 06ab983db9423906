#include "server/attributes/schema_encoding.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace nearfield::server {
namespace {

constexpr char kVersion[] = "1";
// The words after the type, in their order.
struct Flag {
  const char* word = nullptr;
  bool AttributeSpec::*member = nullptr;
};
constexpr Flag kFlags[] = {{"list", &AttributeSpec::is_list},
                           {"expires", &AttributeSpec::expires},
                           {"dropped", &AttributeSpec::dropped}};
constexpr std::array kTypes = {AttributeType::kInt64, AttributeType::kDouble, AttributeType::kBool,
                               AttributeType::kKeyword, AttributeType::kTimestamp};

absl::Status Damaged(size_t line, const std::string& text) {
  return absl::DataLossError(
      absl::StrCat("attribute schema: line ", line + 1, ": ", QuoteText(text)));
}

bool SetType(const std::string& name, AttributeSpec* spec) {
  for (const AttributeType type : kTypes) {
    if (name != NameOf(type)) continue;
    spec->type = type;
    return true;
  }
  return false;
}

}  // namespace

std::string EncodeSchema(const AttributeSchema& schema) {
  if (schema.size() == 0) return "";
  std::string text = absl::StrCat(kVersion, "\n");
  for (int32_t i = 0; i < schema.size(); ++i) {
    const AttributeSpec& spec = schema.at(i);
    absl::StrAppend(&text, spec.name, " ", NameOf(spec.type));
    for (const Flag& flag : kFlags) {
      if (spec.*flag.member) absl::StrAppend(&text, " ", flag.word);
    }
    text += '\n';
  }
  return text;
}

absl::StatusOr<AttributeSchema> DecodeSchema(std::string_view encoded) {
  if (encoded.empty()) return AttributeSchema();
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(encoded.data(), encoded.size()), '\n');
  if (lines.front() != kVersion) return Damaged(0, lines.front());
  if (!lines.back().empty()) return Damaged(lines.size() - 1, lines.back());
  std::vector<AttributeSpec> specs;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    AttributeSpec spec;
    size_t next = 2;
    for (const Flag& flag : kFlags) {
      spec.*flag.member = next < words.size() && words[next] == flag.word;
      if (spec.*flag.member) ++next;
    }
    if (words.size() != next || !SetType(words[1], &spec)) return Damaged(i, lines[i]);
    spec.name = words[0];
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) return Damaged(1, "");
  AttributeLimits limits;  // the current limits may differ from those at creation
  limits.attributes_max = static_cast<int64_t>(specs.size());
  limits.attributes_ever_max = limits.attributes_max;
  absl::StatusOr<AttributeSchema> schema = AttributeSchema::Create(std::move(specs), limits);
  if (schema.ok()) return schema;
  return absl::DataLossError(absl::StrCat("attribute schema: ", schema.status().message()));
}

}  // namespace nearfield::server
