// Options --filter and --if: a filter as text, which the server parses.
#pragma once

#include <optional>
#include <string>

#include "nearfield/client/filter.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nearfield::client {

// Syntax of a filter, for the help of commands that accept one.
extern const char kFilterHelp[];

CLI::Option* AddFilterOption(CLI::App& app, std::optional<Filter>* filter,
                             const std::string& description, const std::string& flag = "--filter");

}  // namespace nearfield::client
