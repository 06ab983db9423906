// Paths of the settings: the default data directory, and relative paths made absolute.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "server/config/settings.h"

namespace nearfield::server {

// The properties of a user that determine the default data directory.
struct DataDirOwner {
  bool is_root = false;
  std::string xdg_data_home;  // XDG_DATA_HOME; ignored if it is relative, as its specification says
  std::string home;
};

// Returns the user of this process.
DataDirOwner ThisUser();

// Returns /var/lib/nearfield for root; else nearfield in $XDG_DATA_HOME or ~/.local/share. Empty if
// the user has no home directory.
std::string DefaultDataDir(const DataDirOwner& owner);

// Sets data_dir to its default if it was not given, and makes relative paths absolute: a path keeps
// its meaning in the log and in messages. Errors: InvalidArgument (there is no working directory).
absl::Status ResolvePaths(const DataDirOwner& owner, Settings* settings);

}  // namespace nearfield::server
