// The caller's name, under which a call gets its share of the device.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/rpc/call_context.h"

namespace nearfield::server {

// Checks the name that a client sent; empty: none. Errors: InvalidArgument (more than 128 bytes).
absl::Status CheckCallerName(std::string_view from_client);

// Returns "name:" and the client's name if that has 1 .. 128 bytes, else its address without the
// port, so that all connections of one host are one caller. `peer` is gRPC's:
// "ipv4:127.0.0.1:51234".
std::string CallerName(std::string_view from_client, std::string_view peer);

// Returns the name under which the call gets its share of the device and of the bytes in flight:
// the principal of its key, or else CallerName.
std::string CallerOf(const CallFacts& facts);

}  // namespace nearfield::server
