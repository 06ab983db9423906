#include "server/config/setting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace nearfield::server {
namespace {

struct ByteUnit {
  std::string_view suffix;
  int64_t bytes;
};
// Largest first: Text() uses the first unit that divides the value.
constexpr std::array kByteUnits = {ByteUnit{"TiB", int64_t{1} << 40}, ByteUnit{"GiB", 1 << 30},
                                   ByteUnit{"MiB", 1 << 20}, ByteUnit{"KiB", 1 << 10}};

struct RenamedSetting {
  std::string_view before;
  std::string_view now;
};
constexpr std::array kRenamedSettings = {RenamedSetting{"audit_share", "audit_one_in"}};

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string ByteText(int64_t bytes) {
  for (const ByteUnit& unit : kByteUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes,
                          absl::string_view(unit.suffix.data(), unit.suffix.size()));
    }
  }
  return absl::StrCat(bytes);
}

}  // namespace

absl::Status CheckNotRenamed(std::string_view place, std::string_view name) {
  for (const RenamedSetting& renamed : kRenamedSettings) {
    if (renamed.before != name) continue;
    return absl::InvalidArgumentError(absl::StrCat(std::string(place), ": setting '",
                                                   std::string(name), "' is now called '",
                                                   std::string(renamed.now), "'"));
  }
  return absl::OkStatus();
}

std::string_view SettingSourceName(SettingSource source) {
  switch (source) {
    case SettingSource::kDefault: return "default";
    case SettingSource::kFile: return "file";
    case SettingSource::kEnvironment: return "environment";
    case SettingSource::kFlag: return "flag";
  }
  return "default";
}

std::string SettingBase::flag() const {
  return absl::StrCat("--", absl::StrReplaceAll(name_, {{"_", "-"}}));
}

std::string SettingBase::environment() const {
  return absl::StrCat("NEARFIELD_", absl::AsciiStrToUpper(name_));
}

absl::Status SettingBase::Set(std::string_view text, SettingSource source) {
  if (!Parse(text)) {
    const absl::string_view shown(text.data(), std::min<size_t>(text.size(), 100));
    const std::string_view from = SettingSourceName(source);
    return absl::InvalidArgumentError(absl::StrCat(name_, " = \"", absl::CHexEscape(shown),
                                                   "\" (from ", std::string(from), "): must be ",
                                                   Allowed()));
  }
  source_ = source;
  return absl::OkStatus();
}

std::string NumberSetting::Text() const { return absl::StrCat(value_); }
std::string NumberSetting::Allowed() const { return absl::StrCat(range_.min, " .. ", range_.max); }

bool NumberSetting::Parse(std::string_view text) {
  const std::optional<int64_t> value = WholeNumber(text);
  return value.has_value() && Assign(*value);
}

bool NumberSetting::Assign(int64_t value) {
  if (value < range_.min || value > range_.max) return false;
  value_ = value;
  return true;
}

std::string BytesSetting::Text() const { return ByteText(value()); }
std::string BytesSetting::Allowed() const {
  return absl::StrCat(ByteText(range().min), " .. ", ByteText(range().max),
                      " (bytes, or with KiB, MiB, GiB, TiB)");
}

void BytesSetting::LowerDefault(int64_t bytes) {
  if (source() == SettingSource::kDefault) {
    static_cast<void>(Assign(std::max(range().min, std::min(value(), bytes))));
  }
}

bool BytesSetting::Parse(std::string_view text) {
  int64_t factor = 1;
  for (const ByteUnit& unit : kByteUnits) {
    if (text.size() > unit.suffix.size() &&
        text.substr(text.size() - unit.suffix.size()) == unit.suffix) {
      factor = unit.bytes;
      text.remove_suffix(unit.suffix.size());
      break;
    }
  }
  const std::optional<int64_t> count = WholeNumber(text);
  int64_t bytes = 0;
  if (!count.has_value() || __builtin_mul_overflow(*count, factor, &bytes)) return false;
  return Assign(bytes);
}

bool TextSetting::Parse(std::string_view text) {
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) || c == '"' || c == '\\') return false;
  }
  value_ = std::string(text);
  return true;
}

bool ChoiceSetting::Parse(std::string_view text) {
  const std::vector<std::string> choices = absl::StrSplit(choices_, '|');
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) return false;
  value_ = std::string(text);
  return true;
}

bool SwitchSetting::Parse(std::string_view text) {
  if (text != "true" && text != "false") return false;
  value_ = text == "true";
  return true;
}

}  // namespace nearfield::server
