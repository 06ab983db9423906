// Parser of the configuration file: one 'name = value' on a line. '#' begins a comment. A value may
// be in double quotes.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/config/setting.h"

namespace nearfield::server {

// Returns the values of the file by setting name. `path` is used in messages.
// Errors: InvalidArgument with the line (syntax, unknown name, duplicate name).
absl::StatusOr<std::map<std::string, std::string>> ParseConfigFile(const std::string& path,
                                                                   const std::string& text,
                                                                   const SettingList& settings);

}  // namespace nearfield::server
