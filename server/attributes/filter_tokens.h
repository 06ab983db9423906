// Tokens of a filter's text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nearfield::server {

// Attributes with these names are written in backquotes.
inline constexpr std::array<std::string_view, 10> kFilterWords = {
    "and", "or", "not", "exists", "in", "any", "all", "id", "true", "false"};

inline bool IsFilterWord(std::string_view text) {
  return std::find(kFilterWords.begin(), kFilterWords.end(), text) != kFilterWords.end();
}

struct FilterToken {
  enum class Kind : uint8_t {
    kEnd,
    kWord,      // and, or, exists, year: `text` as written
    kName,      // `id`: `text` without the backquotes
    kString,    // "de" or 'de': `text` decoded
    kNumber,    // 2020, -1.5e3, -inf: `text` as written
    kSymbol,    // ( ) , == != < <= > >=
    kArgument,  // $12: `text` without the $
    kBad,       // `text` is the error message
  };

  Kind kind = Kind::kEnd;
  std::string text;
  size_t at = 0;  // byte of the whole text where the token begins

  bool Is(Kind wanted, std::string_view spelling) const {
    return kind == wanted && text == spelling;
  }
  bool IsWord(std::string_view word) const { return Is(Kind::kWord, word); }
  bool IsSymbol(std::string_view symbol) const { return Is(Kind::kSymbol, symbol); }
};

// Returns the token at byte `at`, or after white space there. `*end` is the byte after the token.
FilterToken NextFilterToken(std::string_view text, size_t at, size_t* end);

}  // namespace nearfield::server
