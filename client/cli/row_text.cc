#include "client/cli/row_text.h"

#include <charconv>
#include <iterator>

#include "client/cpp/text.h"
#include "client/formats/attribute_text.h"
#include "client/formats/json_text.h"

namespace nearfield::client {
namespace {

// Returns the shortest decimal that is read back to the same value, -0 included.
std::string Shortest(float value) {
  char text[32];
  return {std::begin(text), std::to_chars(std::begin(text), std::end(text), value).ptr};
}

}  // namespace

std::string ShortestVectorJson(DataType dtype, std::string_view row) {
  return JsonArray(Widen(dtype, row), Shortest);
}

std::vector<std::string> AttributeMembers(const std::vector<AttributeColumn>& columns,
                                          size_t rows_count) {
  std::vector<std::string> members(rows_count);
  for (const AttributeColumn& column : columns) {
    const std::vector<std::string> values = AttributeJson(column, rows_count);
    const std::string key = Cat(QuoteJson(column.attribute), ":");
    for (size_t row = 0; row < rows_count; ++row) {
      if (values[row] == "null") continue;  // no value
      members[row] += Cat(members[row].empty() ? "" : ",", key, values[row]);
    }
  }
  return members;
}

}  // namespace nearfield::client
