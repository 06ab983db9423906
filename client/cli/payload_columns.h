// Columns of a table that show payloads.
#ifndef NEARFIELD_CLIENT_CLI_PAYLOAD_COLUMNS_H_
#define NEARFIELD_CLIENT_CLI_PAYLOAD_COLUMNS_H_

#include <string>
#include <string_view>
#include <vector>

namespace nearfield::client {

// One cell a field: the member of that name of a payload that is a JSON object, strings as their
// text, others as JSON; empty where there is none. Without fields one cell: the whole payload,
// shortened.
std::vector<std::string> PayloadCells(std::string_view payload,
                                      const std::vector<std::string>& fields);

// The names of those columns.
std::vector<std::string> PayloadColumnNames(const std::vector<std::string>& fields);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_PAYLOAD_COLUMNS_H_
