#include "client/formats/filter_words.h"

#include "client/formats/json_text.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

using Kind = FilterToken::Kind;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWordCharacter(char c) { return IsLetter(c) || IsDigit(c); }

// Accepts the characters of a number and those directly after it: "20x" is one bad number, not a
// number and a word.
bool IsNumberCharacter(char c, char before) {
  return IsWordCharacter(c) || c == '.' ||
         ((c == '+' || c == '-') && (before == 'e' || before == 'E'));
}

// Returns the byte after the closing quote; npos if there is none.
size_t QuotedEnd(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// Converts '...' to a JSON string.
std::string WithDoubleQuotes(std::string_view quoted) {
  std::string json = "\"";
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    if (quoted[i] == '\\' && quoted[i + 1] == '\'') {
      json += quoted[++i];
    } else if (quoted[i] == '\\') {
      json += quoted[i];
      json += quoted[++i];
    } else if (quoted[i] == '"') {
      json += "\\\"";
    } else {
      json += quoted[i];
    }
  }
  return json + "\"";
}

FilterToken Quoted(std::string_view text, size_t at, size_t* end) {
  *end = QuotedEnd(text, at);
  if (*end == std::string_view::npos) {
    *end = text.size();
    return {.kind = Kind::kBad, .text = "this quote is not closed", .at = at};
  }
  const std::string_view quoted = text.substr(at, *end - at);
  const std::string json = quoted.front() == '"' ? std::string(quoted) : WithDoubleQuotes(quoted);
  if (const absl::Status status = CheckJson(json); !status.ok()) {
    return {.kind = Kind::kBad,
            .text = "not a text as JSON spells it, UTF-8 and with escapes such as \\\" and \\n",
            .at = at};
  }
  return {.kind = Kind::kString, .text = JsonString(json).value_or(""), .at = at};
}

FilterToken Sign(std::string_view text, size_t at, size_t* end) {
  for (const std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">", "(", ")", ","}) {
    if (text.substr(at, symbol.size()) != symbol) continue;
    *end = at + symbol.size();
    return {.kind = Kind::kSymbol, .text = std::string(symbol), .at = at};
  }
  *end = at + 1;
  if (text[at] == '=') return {.kind = Kind::kBad, .text = "write ==", .at = at};
  const size_t length = std::max<size_t>(Utf8Length(text.substr(at)), 1);
  return {
      .kind = Kind::kBad, .text = Cat("unexpected ", QuoteJson(text.substr(at, length))), .at = at};
}

}  // namespace

FilterToken NextFilterToken(std::string_view text, size_t at, size_t* end) {
  while (at < text.size() && IsSpace(text[at])) ++at;
  *end = at;
  if (at == text.size()) return {.kind = Kind::kEnd, .text = {}, .at = at};
  const char c = text[at];
  if (c == '"' || c == '\'') return Quoted(text, at, end);
  if (c == '`') {
    *end = QuotedEnd(text, at);
    if (*end != std::string_view::npos) {
      return {
          .kind = Kind::kName, .text = std::string(text.substr(at + 1, *end - at - 2)), .at = at};
    }
    *end = text.size();
    return {.kind = Kind::kBad, .text = "this backquote is not closed", .at = at};
  }
  const auto token = [&](Kind kind) {
    return FilterToken{.kind = kind, .text = std::string(text.substr(at, *end - at)), .at = at};
  };
  if (IsLetter(c)) {
    while (*end < text.size() && IsWordCharacter(text[*end])) ++*end;
    return token(Kind::kWord);
  }
  if (!IsDigit(c) && c != '-' && c != '+' && c != '.') return Sign(text, at, end);
  do {
    ++*end;
  } while (*end < text.size() && IsNumberCharacter(text[*end], text[*end - 1]));
  return token(Kind::kNumber);
}

absl::Status BadFilter(std::string_view text, size_t at, std::string_view reason) {
  const auto characters =
      std::count_if(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), [](char c) {
        // not a continuation byte of UTF-8
        return (static_cast<uint8_t>(c) & 0xc0) != 0x80;
      });
  return absl::InvalidArgumentError(Cat("column ", characters + 1, ": ", reason));
}

}  // namespace nearfield::client
