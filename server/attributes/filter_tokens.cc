#include "server/attributes/filter_tokens.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "server/attributes/schema.h"

namespace nearfield::server {
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

// Decodes a JSON string. Returns nullopt for any other text, and for bytes that are not UTF-8.
std::optional<std::string> DecodeJsonString(std::string_view quoted) {
  nlohmann::json value = nlohmann::json::parse(quoted.begin(), quoted.end(), /*cb=*/nullptr,
                                               /*allow_exceptions=*/false);
  if (!value.is_string()) return std::nullopt;
  return std::move(value.get_ref<std::string&>());
}

FilterToken Bad(size_t at, std::string reason) {
  return {.kind = Kind::kBad, .text = std::move(reason), .at = at};
}

FilterToken Quoted(std::string_view text, size_t at, size_t* end) {
  *end = QuotedEnd(text, at);
  if (*end == std::string_view::npos) {
    *end = text.size();
    return Bad(at, "this quote is not closed");
  }
  const std::string_view quoted = text.substr(at, *end - at);
  std::optional<std::string> decoded =
      quoted.front() == '"' ? DecodeJsonString(quoted) : DecodeJsonString(WithDoubleQuotes(quoted));
  if (decoded.has_value()) return {.kind = Kind::kString, .text = *std::move(decoded), .at = at};
  return Bad(at, R"(not a text as JSON spells it, UTF-8 and with escapes such as \" and \n)");
}

// A name in backquotes; two of them stand for one that belongs to it.
FilterToken Backquoted(std::string_view text, size_t at, size_t* end) {
  std::string name;
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '`' && text.substr(i + 1, 1) != "`") {
      *end = i + 1;
      return {.kind = Kind::kName, .text = std::move(name), .at = at};
    }
    name += text[i];
    if (text[i] == '`') ++i;
  }
  *end = text.size();
  return Bad(at, "this backquote is not closed");
}

FilterToken Symbol(std::string_view text, size_t at, size_t* end) {
  for (const std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">", "(", ")", ","}) {
    if (text.substr(at, symbol.size()) != symbol) continue;
    *end = at + symbol.size();
    return {.kind = Kind::kSymbol, .text = std::string(symbol), .at = at};
  }
  *end = at + 1;
  if (text[at] == '=') return Bad(at, "write ==");
  if (static_cast<uint8_t>(text[at]) >= 0x80) {
    return Bad(at, "a character that is not ASCII: it may stand only in quotes, which are \" or '");
  }
  return Bad(at, "unexpected " + QuoteText(text.substr(at, 1)));
}

}  // namespace

FilterToken NextFilterToken(std::string_view text, size_t at, size_t* end) {
  while (at < text.size() && IsSpace(text[at])) ++at;
  *end = at;
  if (at == text.size()) return {.kind = Kind::kEnd, .text = {}, .at = at};
  const char c = text[at];
  if (c == '"' || c == '\'') return Quoted(text, at, end);
  const auto token = [&](Kind kind) {
    return FilterToken{.kind = kind, .text = std::string(text.substr(at, *end - at)), .at = at};
  };
  if (c == '`') {
    return Backquoted(text, at, end);
  }
  if (IsLetter(c)) {
    while (*end < text.size() && IsWordCharacter(text[*end])) ++*end;
    return token(Kind::kWord);
  }
  if (c == '$') {
    do {
      ++*end;
    } while (*end < text.size() && IsWordCharacter(text[*end]));
    FilterToken argument = token(Kind::kArgument);
    argument.text.erase(0, 1);
    return argument;
  }
  if (!IsDigit(c) && c != '-' && c != '+' && c != '.') return Symbol(text, at, end);
  do {
    ++*end;
  } while (*end < text.size() && IsNumberCharacter(text[*end], text[*end - 1]));
  return token(Kind::kNumber);
}

}  // namespace nearfield::server
