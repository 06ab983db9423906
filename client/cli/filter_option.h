// Option --filter: a filter as text, which the server parses.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nearfield::client {

// Syntax of a filter, for the help of commands that accept one.
extern const char kFilterHelp[];

CLI::Option* AddFilterOption(CLI::App& app, std::optional<std::string>* text,
                             const std::string& description);

}  // namespace nearfield::client
