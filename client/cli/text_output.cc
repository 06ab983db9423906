#include "client/cli/text_output.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "absl/strings/str_format.h"
#include "client/cpp/text.h"
#include "client/formats/json_text.h"

namespace nearfield::client {
namespace {

constexpr std::string_view kGap = "  ";

// C0 and C1 controls and DEL: C1 (U+0080 .. U+009F) controls terminals in the same way as ESC.
bool IsControl(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<uint8_t>(character[1]) < 0xa0;
}

}  // namespace

std::string Printable(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t length = std::max<size_t>(Utf8Length(bytes), 1);
    const std::string_view character = bytes.substr(0, length);
    if (character == "\n" || character == "\t" || character == "\r") {
      text += ' ';
    } else if (Utf8Length(bytes) == 0 || IsControl(character)) {
      text += '?';
    } else {
      text += character;
    }
    bytes.remove_prefix(length);
  }
  return text;
}

size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<uint8_t>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

std::string Shortened(std::string_view text, size_t width_max) {
  constexpr std::string_view kEllipsis = "...";
  if (Width(text) <= width_max) return std::string(text);
  if (width_max <= kEllipsis.size()) return std::string(kEllipsis.substr(0, width_max));
  size_t end = 0;
  for (size_t i = 0; i < width_max - kEllipsis.size(); ++i) {
    end += std::max<size_t>(Utf8Length(text.substr(end)), 1);
  }
  return Cat(text.substr(0, end), kEllipsis);
}

std::string HumanBytes(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes)
                   : absl::StrFormat("%.*f %s",
                                     bytes < 10    ? 2
                                     : bytes < 100 ? 1
                                                   : 0,
                                     bytes, kUnits[unit]);
}

std::string Grouped(uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string HumanSeconds(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const auto whole = static_cast<uint64_t>(std::min(seconds, 1e9));
  const uint64_t minutes = whole / 60 % 60;
  return whole < 3600 ? absl::StrFormat("%d:%02d", minutes, whole % 60)
                      : absl::StrFormat("%d:%02d:%02d", whole / 3600, minutes, whole % 60);
}

std::string TimeText(int64_t unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  std::array<char, 32> text{};
  if (gmtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  }
  return text.data();
}

void Table::Add(const std::vector<std::string>& cells) {
  std::vector<std::string>& row = rows_.emplace_back();
  row.reserve(cells.size());
  for (const std::string& cell : cells) row.push_back(Printable(cell));
}

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(Width(columns_[c].name));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(widths[c] - Width(cell), ' ');
      const bool right = columns_[c].right;
      if (c > 0) text += kGap;
      if (right) text += padding;
      text += cell;
      if (!right && c + 1 < columns_.size()) text += padding;
    }
    text += '\n';
  };
  add_line([&](size_t c) -> const std::string& { return columns_[c].name; });
  for (const auto& row : rows_) {
    add_line([&](size_t c) -> const std::string& { return row[c]; });
  }
  return text;
}

}  // namespace nearfield::client
