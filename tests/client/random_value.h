// Random values of attributes of every type.
#pragma once

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "nearfield/client/attributes.h"

namespace nearfield::client {

// One attribute of each type, a list of each type, and names that are words of a filter's text.
inline const std::vector<AttributeSpec>& EveryAttribute() {
  static const std::vector<AttributeSpec> attributes = {
      {"year", AttributeType::kInt64},        {"price", AttributeType::kDouble},
      {"good", AttributeType::kBool},         {"language", AttributeType::kKeyword},
      {"made", AttributeType::kTimestamp},    {"tags", AttributeType::kKeyword, true},
      {"years", AttributeType::kInt64, true}, {"prices", AttributeType::kDouble, true},
      {"goods", AttributeType::kBool, true},  {"days", AttributeType::kTimestamp, true},
      {"id", AttributeType::kInt64},          {"not", AttributeType::kKeyword},
      {"any", AttributeType::kBool, true},    {"true", AttributeType::kDouble},
  };
  return attributes;
}

inline std::string RandomText(std::mt19937_64& random) {
  static const std::vector<std::string> parts = {"a",  "de", "\"",     "'",      "\\",
                                                 "\n", "\t", "\u00e9", "\u4e2d", "\U0001f600",
                                                 " ",  "(",  ")",      "`",      "\x7f"};
  std::string text;
  for (uint64_t i = random() % 5; i > 0; --i) text += parts[random() % parts.size()];
  return text;
}

inline AttributeValue RandomValue(std::mt19937_64& random, AttributeType type) {
  switch (type) {
    case AttributeType::kInt64: return static_cast<int64_t>(random() >> (random() % 64));
    case AttributeType::kDouble: {
      const auto value = std::bit_cast<double>(random());
      return std::isnan(value) ? 0.5 : value;
    }
    case AttributeType::kBool: return random() % 2 == 0;
    case AttributeType::kKeyword: return RandomText(random);
    default:
      return Timestamp(
          std::chrono::microseconds(static_cast<int64_t>(random() >> (random() % 64))));
  }
}

}  // namespace nearfield::client
