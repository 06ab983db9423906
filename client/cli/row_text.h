// Rows as JSON text whose values are read back to the bit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Returns the values of a stored row as a JSON array of shortest decimals. Requires: finite values.
std::string ShortestVectorJson(DataType dtype, std::string_view row);

// Reads the columns of a page row by row.
class AttributeTexts {
 public:
  // The columns outlive this object.
  explicit AttributeTexts(const std::vector<AttributeColumn>& columns);

  // Returns the members of the next row's object: "year":2020,"tags":["a","b"]. Empty if it has no
  // attribute. Values in the form of AttributeReader. Requires: a row is left.
  std::string Next();

 private:
  struct Place {
    const AttributeColumn* column = nullptr;
    size_t present = 0;  // rows with a value so far
    size_t value = 0;    // values so far
  };
  std::vector<Place> places_;
  size_t row_ = 0;
};

}  // namespace nearfield::client
