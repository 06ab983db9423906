// Checks that an address names a host and a port.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace nearfield::client {

// Checks that an address has the form host:port or [ipv6]:port, with or without dns:, ipv4: or
// ipv6: before it, and that the port is valid. unix: and the like, and a service name in place of
// the port, are left to gRPC. Errors: InvalidArgument.
absl::Status CheckAddress(std::string_view address);

}  // namespace nearfield::client
