// StartDemo: runs the command `nearfield demo` against this server.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace nearfield::server {

// Starts `nearfield demo`, from the folder of this program, as a process of its own that prints to
// standard output. Does not wait for its end. Errors: NotFound (no such program).
absl::Status StartDemo(const std::string& address);

}  // namespace nearfield::server
