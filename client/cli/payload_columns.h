// Table columns that show payloads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nearfield::client {

// Returns one cell per field: the member of that name if the payload is a JSON object (strings as
// text, other values as JSON), else empty. Without fields, returns one cell: the whole payload,
// shortened.
std::vector<std::string> PayloadCells(std::string_view payload,
                                      const std::vector<std::string>& fields);

// Returns the names of those columns.
std::vector<std::string> PayloadColumnNames(const std::vector<std::string>& fields);

}  // namespace nearfield::client
