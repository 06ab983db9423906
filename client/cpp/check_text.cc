#include "client/cpp/check_text.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/cpp/utf8.h"

namespace nearfield::client {
namespace {

constexpr size_t kShownBytesMax = 60;

}  // namespace

absl::Status CheckText(std::string_view field, std::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  const std::string shown = absl::CHexEscape(std::string(text.substr(0, kShownBytesMax)));
  return absl::InvalidArgumentError(Cat(field, ": \"", shown, "\" is not UTF-8"));
}

absl::Status CheckText(std::string_view field, const IdColumn& ids) {
  const auto* texts = std::get_if<std::vector<std::string>>(&ids);
  if (texts == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < texts->size(); ++i) {
    if (IsUtf8((*texts)[i])) continue;
    return CheckText(Cat(field, "[", i, "]"), (*texts)[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view field, const AttributeColumn& column) {
  NF_RETURN_IF_ERROR(CheckText(Cat(field, ".attribute"), column.attribute));
  const auto* keywords = std::get_if<std::vector<std::string>>(&column.values);
  for (size_t i = 0; keywords != nullptr && i < keywords->size(); ++i) {
    if (IsUtf8((*keywords)[i])) continue;
    return CheckText(Cat(field, " (", column.attribute, "): value ", i), (*keywords)[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckText(std::span<const AttributeColumn> attributes) {
  for (size_t i = 0; i < attributes.size(); ++i) {
    NF_RETURN_IF_ERROR(CheckText(Cat("attributes[", i, "]"), attributes[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckText(std::string_view collection, std::span<const Query> queries) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  for (size_t i = 0; i < queries.size(); ++i) {
    const auto* id = std::get_if<Id>(&queries[i]);
    const auto* text = id == nullptr ? nullptr : std::get_if<std::string>(id);
    if (text != nullptr) NF_RETURN_IF_ERROR(CheckText(Cat("queries[", i, "]"), *text));
  }
  return absl::OkStatus();
}

}  // namespace nearfield::client
