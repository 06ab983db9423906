// Credentials of the listening port, from the settings.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/config/settings.h"

namespace nearfield::server {

// Returns TLS with tls_cert; gRPC reads its files again every tls_reload_s. Without it, returns
// gRPC's credentials of local connections for a unix socket and for loopback, which refuse every
// other connection; else none. Errors: InvalidArgument (names the file).
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsOf(
    const Settings& settings);

}  // namespace nearfield::server
