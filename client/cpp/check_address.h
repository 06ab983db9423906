// Checks the port in an address.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace nearfield::client {

// Checks that the port of host:port or [ipv6]:port, also after dns:, ipv4: or ipv6:, is valid. Any
// other form, and a service name in place of the port, is left to gRPC. Errors: InvalidArgument.
absl::Status CheckAddress(std::string_view address);

}  // namespace nearfield::client
