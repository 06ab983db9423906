#include "server/config/file.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/command_line/suggest.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

absl::string_view WithoutComment(absl::string_view text) {
  return absl::StripAsciiWhitespace(text.substr(0, text.find('#')));
}

// Parses the text after '='. Returns nullopt if it is not exactly one value.
std::optional<std::string> ParseValue(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty() || text.front() != '"') {
    text = WithoutComment(text);
    if (text.empty() || text.find('"') != absl::string_view::npos) return std::nullopt;
    return std::string(text);
  }
  const size_t end = text.find('"', 1);
  if (end == absl::string_view::npos || !WithoutComment(text.substr(end + 1)).empty()) {
    return std::nullopt;
  }
  return std::string(text.substr(1, end - 1));
}

std::vector<std::string> NamesOf(const SettingList& settings) {
  std::vector<std::string> names;
  for (const SettingBase* setting : settings.all()) names.push_back(setting->name());
  return names;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseConfigFile(const std::string& path,
                                                                   const std::string& text,
                                                                   const SettingList& settings) {
  std::map<std::string, std::string> values;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view line = lines[i];
    if (WithoutComment(line).empty()) continue;
    const std::string place = absl::StrCat("configuration file ", path, ", line ", i + 1);
    const size_t equals = line.find('=');
    const std::string name(absl::StripAsciiWhitespace(line.substr(0, equals)));
    std::optional<std::string> value;
    if (equals != absl::string_view::npos) value = ParseValue(line.substr(equals + 1));
    if (!value.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          place, ": '", absl::CHexEscape(line.substr(0, 100)), "' is not 'name = value'"));
    }
    ABSL_RETURN_IF_ERROR(CheckNotRenamed(place, name));
    const std::vector<std::string> known = NamesOf(settings);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": unknown setting '", absl::CHexEscape(name.substr(0, 100)), "'",
                       DidYouMean(name.substr(0, 100), known), "; --help lists all"));
    }
    if (!values.emplace(name, *std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", name, " is given twice"));
    }
  }
  return values;
}

}  // namespace nearfield::server
