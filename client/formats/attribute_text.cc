#include "client/formats/attribute_text.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "client/cpp/text.h"
#include "client/formats/json_text.h"
#include "client/value_text/timestamp_text.h"

namespace nearfield::client {
namespace {

constexpr char kNoValue[] = "null";

std::string ValueJson(int64_t value) { return std::to_string(value); }
std::string ValueJson(bool value) { return value ? "true" : "false"; }
std::string ValueJson(const std::string& value) { return QuoteJson(value); }
std::string ValueJson(double value) {
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  if (value == 0 && std::signbit(value)) return "-0.0";  // "-0" would be read as an integer
  return absl::StrFormat("%.17g", value);
}
std::string ValueJson(Timestamp value) {
  const std::string text = TimestampText(value);
  return HasTimestampText(value) ? QuoteJson(text) : text;
}

std::string JsonAt(const AttributeValues& values, size_t index) {
  return std::visit([&](const auto& column) { return ValueJson(column[index]); }, values);
}

}  // namespace

std::vector<std::string> AttributeJson(const AttributeColumn& column, size_t rows_count) {
  std::vector<std::string> json;
  json.reserve(rows_count);
  size_t value = 0;
  size_t list = 0;
  for (size_t row = 0; row < rows_count; ++row) {
    if (!column.presence.empty() && !column.presence[row]) {
      json.emplace_back(kNoValue);
    } else if (column.list_sizes.empty()) {
      json.push_back(JsonAt(column.values, value++));
    } else {
      std::string elements;
      for (const size_t end = value + column.list_sizes[list++]; value < end; ++value) {
        elements += Cat(elements.empty() ? "" : ",", JsonAt(column.values, value));
      }
      json.push_back(Cat("[", elements, "]"));
    }
  }
  return json;
}

std::vector<std::string> AttributeCells(const AttributeColumn& column, size_t rows_count) {
  std::vector<std::string> cells = AttributeJson(column, rows_count);
  for (std::string& cell : cells) {
    if (cell == kNoValue) {
      cell.clear();
    } else if (const auto text = JsonString(cell)) {
      cell = *text;
    }
  }
  return cells;
}

}  // namespace nearfield::client
