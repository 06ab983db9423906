// Whether an address names ports that there are.
#ifndef NEARFIELD_CLIENT_CPP_CHECK_ADDRESS_H_
#define NEARFIELD_CLIENT_CPP_CHECK_ADDRESS_H_

#include <string_view>

#include "absl/status/status.h"

namespace nearfield::client {

// Of host:port, [ipv6]:port, and the same behind dns:, ipv4: and ipv6:, the port must be one.
// Any other form, and a name in the place of the port, is left to gRPC. Errors: InvalidArgument.
absl::Status CheckAddress(std::string_view address);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CPP_CHECK_ADDRESS_H_
