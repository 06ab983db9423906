#include "server/http/json_text.h"

#include <cstdint>

#include "absl/strings/numbers.h"

namespace nearfield::server {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the four hex digits at the start of `raw`; nullopt: they are none.
std::optional<uint32_t> Hex4(std::string_view raw) {
  uint32_t code = 0;
  if (raw.size() < 4) return std::nullopt;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + 4, code, 16);
  return error == std::errc() && end == raw.data() + 4 ? std::optional(code) : std::nullopt;
}

void AppendUtf8(uint32_t code, std::string* text) {
  const auto byte = [text](uint32_t value) { text->push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | (code >> 6));
    byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3f));
    byte(0x80 | ((code >> 6) & 0x3f));
    byte(0x80 | (code & 0x3f));
  }
}

}  // namespace

size_t JsonNumberSize(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) ++at;
    return at > begin;
  };
  const auto is = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos;
  };
  if (is("-")) ++at;
  if (is("0")) {
    ++at;
  } else if (!digits()) {
    return 0;
  }
  if (is(".")) {
    ++at;
    if (!digits()) return 0;
  }
  if (is("eE")) {
    ++at;
    if (is("+-")) ++at;
    if (!digits()) return 0;
  }
  return at;
}

// Returns the number, rounded to the nearest double; nullopt: it is none, or too large for a
// double.
std::optional<double> JsonReal(std::string_view text) {
  if (text.empty() || JsonNumberSize(text) != text.size()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  // Too large, or too small for from_chars: then it is 0.
  if (!absl::SimpleAtod({text.data(), text.size()}, &value) || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

bool UnescapeJson(std::string_view raw, std::string* text) {
  constexpr std::string_view kMarks = "\"\\/bfnrt";
  constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  text->reserve(raw.size());
  for (size_t at = 0; at < raw.size(); ++at) {
    if (raw[at] != '\\') {
      text->push_back(raw[at]);
      continue;
    }
    ++at;  // a character follows each backslash
    const size_t mark = kMarks.find(raw[at]);
    if (mark != std::string_view::npos) {
      text->push_back(kMeant[mark]);
      continue;
    }
    std::optional<uint32_t> code = raw[at] == 'u' ? Hex4(raw.substr(at + 1)) : std::nullopt;
    if (!code.has_value()) return false;
    at += 4;
    if (*code >= 0xd800 && *code < 0xdc00 && raw.substr(at + 1, 2) == "\\u") {
      const std::optional<uint32_t> low = Hex4(raw.substr(at + 3));
      if (low.has_value() && *low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        at += 6;
      }
    }
    AppendUtf8(*code, text);
  }
  return true;
}

}  // namespace nearfield::server
