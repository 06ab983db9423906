// Random filters over attributes of every type.
#pragma once

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "nearfield/client/filter.h"

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

inline Filter RandomCondition(std::mt19937_64& random, IdType id_type) {
  const AttributeSpec& spec = EveryAttribute()[random() % EveryAttribute().size()];
  if (random() % 8 == 0) return Filter::Exists(spec.name);
  if (random() % 8 == 0) {
    IdColumn ids = EmptyIds(id_type);
    for (uint64_t i = 1 + random() % 4; i > 0; --i) {
      Append(id_type == IdType::kUint64 ? Id(random()) : Id("i" + RandomText(random)), &ids);
    }
    return Filter::HasId(std::move(ids));
  }
  std::vector<AttributeValue> values;
  for (uint64_t i = 1 + random() % 4; i > 0; --i) values.push_back(RandomValue(random, spec.type));
  if (spec.is_list) {
    return random() % 2 == 0 ? Filter::ListAny(spec.name, values)
                             : Filter::ListAll(spec.name, values);
  }
  constexpr Filter (*kComparisons[])(std::string, AttributeValue) = {
      Filter::Equal,     Filter::NotEqual, Filter::Less,
      Filter::LessEqual, Filter::Greater,  Filter::GreaterEqual};
  const uint64_t choice = random() % 7;
  if (choice == 6) return Filter::In(spec.name, values);
  return kComparisons[spec.type == AttributeType::kBool ? choice % 2 : choice](spec.name,
                                                                               values.front());
}

// Returns a filter of at most `levels` levels; `and` and `or` have at least two operands.
inline Filter RandomFilter(std::mt19937_64& random, IdType id_type,
                           size_t levels = kFilterLevelsMax) {
  if (levels == 1 || random() % 3 == 0) return RandomCondition(random, id_type);
  if (random() % 3 == 0) return Filter::Not(RandomFilter(random, id_type, levels - 1));
  std::vector<Filter> operands;
  for (uint64_t i = 2 + random() % 2; i > 0; --i) {
    operands.push_back(RandomFilter(random, id_type, levels - 1));
  }
  return random() % 2 == 0 ? Filter::And(std::move(operands)) : Filter::Or(std::move(operands));
}

}  // namespace nearfield::client
