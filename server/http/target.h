// The target of an HTTP request: its path and its query.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nearfield::server {

// Decodes %XX, and in a query also '+', which is a space. Returns nullopt for an invalid code.
std::optional<std::string> PercentDecoded(std::string_view text, bool is_query);

// The parameters of a query by name, in its order, not decoded: "a=1&b" is {a, 1}, {b, ""}.
std::vector<std::pair<std::string_view, std::string_view>> ParametersIn(std::string_view query);

// Returns the first parameter of this name, decoded; nullopt if there is none or its value is
// malformed.
std::optional<std::string> ParameterIn(std::string_view query, std::string_view name);

}  // namespace nearfield::server
