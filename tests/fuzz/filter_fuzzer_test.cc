#include <string>
#include <string_view>

#include "tests/fuzz/bounded_run.h"

namespace nearfield::fuzz {
namespace {

constexpr std::string_view kTexts[] = {
    "i == -7 and (d >= 2.5e3 or not exists(k)) and ks any (\"a\", 'b\\u00e9') and id in (1, 2)",
    "b != true or t < \"2024-05-17T09:30:00.25Z\" and not (`i` in (1) or id == 'a') or ks all "
    "('a')",
    "not (is any (1, -1, 3) and d < inf) or id == 4 or k > '' and t >= -12"};
constexpr std::string_view kParts[] = {
    "(",  ")",  ",",    "\"", "'",   "\\", "`",   "=",  "==",  "<=", "!=", " ",   "-",  "i",
    "ks", "\n", "\xff", "é",  "inf", "id", "not", "in", "and", "or", "0",  "1e9", "any"};

// Returns an input of the fuzzer with one of the texts after a few edits that break parsers.
std::vector<uint8_t> DrawText(testing::Random& random) {
  std::string text(random.OneOf<std::string_view>(kTexts));
  for (int64_t edits = random.Between(0, 5); edits > 0; --edits) {
    const auto at = static_cast<size_t>(random.Between(0, std::ssize(text) + 1));
    const auto length = static_cast<size_t>(random.Between(0, 30));
    switch (random.Between(0, 4)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, random.OneOf<std::string_view>(kParts)); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random.Bits());
    }
  }
  text.insert(0, 1, '\x01');
  return {text.begin(), text.end()};
}

TEST(FilterFuzz, AnyTextIsRefusedOrFiltersAsTheSlowFilter) { RunBounded(40'000, DrawText); }

// Inputs of small bytes give consistent counts and levels; others use all byte values.
TEST(FilterFuzz, AnyInputIsRefusedOrFiltersAsTheSlowFilter) {
  RunBounded(40'000, [](testing::Random& random) {
    std::vector<uint8_t> input(
        static_cast<size_t>(random.Between(0, random.OneIn(10) ? 2000 : 60)));
    const int64_t small_in = random.Between(1, 6);
    for (uint8_t& byte : input) {
      const uint64_t bits = random.Bits();
      byte = static_cast<uint8_t>(random.OneIn(small_in) ? bits % 6 : bits);
    }
    return input;
  });
}

}  // namespace
}  // namespace nearfield::fuzz
