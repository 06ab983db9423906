// Option --filter: a filter as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/cli/command.h"

namespace CLI {
class Option;
}

namespace nearfield::client {

// Syntax of a filter, for the help of commands that accept one.
extern const char kFilterHelp[];

CLI::Option* AddFilterOption(CLI::App& app, std::string* text, const std::string& description);

// Parses the text with the collection's schema (requested from the server); an empty text is no
// filter.
absl::StatusOr<std::optional<Filter>> ResolveFilter(Client& client, std::string_view collection,
                                                    const std::string& text);

}  // namespace nearfield::client
