// The configuration file: one 'name = value' a line, '#' begins a comment, a value may stand in
// double quotes.
#ifndef NEARFIELD_SERVER_CONFIG_FILE_H_
#define NEARFIELD_SERVER_CONFIG_FILE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/config/setting.h"

namespace nearfield::server {

// The values of the file, by setting name. `path` is for messages.
// Errors: InvalidArgument with the line (no such form, unknown name, a name twice).
absl::StatusOr<std::map<std::string, std::string>> ParseConfigFile(const std::string& path,
                                                                   const std::string& text,
                                                                   const SettingList& settings);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONFIG_FILE_H_
