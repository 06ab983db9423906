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

// Returns, for each of `rows_count` rows, the members of its attributes: "year":2020,"tags":["a"].
// Empty if it has none. Requires: columns of that many rows.
std::vector<std::string> AttributeMembers(const std::vector<AttributeColumn>& columns,
                                          size_t rows_count);

}  // namespace nearfield::client
