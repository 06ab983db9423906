#include "client/cli/row_text.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <variant>

#include "client/formats/json_text.h"
#include "client/formats/text.h"
#include "client/formats/timestamp_text.h"

namespace nearfield::client {
namespace {

// Returns the shortest decimal that is read back to the same value, -0 included.
template <typename Number>
std::string Shortest(Number value) {
  char text[40];
  return std::string(std::begin(text), std::to_chars(std::begin(text), std::end(text), value).ptr);
}

std::string ValueJson(int64_t value) { return Shortest(value); }
std::string ValueJson(bool value) { return value ? "true" : "false"; }
std::string ValueJson(const std::string& value) { return QuoteJson(value); }
std::string ValueJson(double value) {
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  return Shortest(value);
}
std::string ValueJson(Timestamp time) {
  return HasTimestampText(time) ? Cat("\"", TimestampText(time), "\"") : TimestampText(time);
}

std::string ValueJson(const AttributeValues& values, size_t i) {
  // The type of the parameter is needed for the proxies of std::vector<bool>.
  return std::visit(
      [i](const auto& column) {
        using Value = typename std::decay_t<decltype(column)>::value_type;
        return ValueJson(static_cast<const Value&>(column[i]));
      },
      values);
}

}  // namespace

std::string ShortestVectorJson(DataType dtype, std::string_view row) {
  return JsonArray(Widen(dtype, row), [](float value) { return Shortest(value); });
}

AttributeTexts::AttributeTexts(const std::vector<AttributeColumn>& columns) {
  for (const AttributeColumn& column : columns) places_.push_back({.column = &column});
}

std::string AttributeTexts::Next() {
  std::string members;
  for (Place& place : places_) {
    const AttributeColumn& column = *place.column;
    if (!column.presence.empty() && !column.presence[row_]) continue;
    if (!members.empty()) members += ',';
    members += Cat(QuoteJson(column.attribute), ":");
    const size_t row = place.present++;
    if (column.list_sizes.empty()) {
      members += ValueJson(column.values, place.value++);
      continue;
    }
    members += '[';
    for (uint32_t i = 0; i < column.list_sizes[row]; ++i) {
      if (i > 0) members += ',';
      members += ValueJson(column.values, place.value++);
    }
    members += ']';
  }
  ++row_;
  return members;
}

}  // namespace nearfield::client
