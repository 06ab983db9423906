// Attributes of rows as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nearfield/client/attributes.h"

namespace nearfield::client {

// Returns the attribute of each row as JSON, in the form that AttributeReader reads: a list as an
// array, a time as RFC 3339 (microseconds since 1970 outside the years 0000 to 9999), a double with
// 17 digits, which identify it, an infinity as "inf" or "-inf". "null" if the row has no value.
// Requires: a column of `rows_count` rows whose counts match.
std::vector<std::string> AttributeJson(const AttributeColumn& column, size_t rows_count);

// Returns the same for people: a single keyword or time is not quoted, and a row without a value
// has an empty text.
std::vector<std::string> AttributeCells(const AttributeColumn& column, size_t rows_count);

}  // namespace nearfield::client
