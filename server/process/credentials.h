// Credentials of the listening port, from the settings.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/config/settings.h"
#include "server/security/certificates.h"

namespace nearfield::server {

// Returns the files of tls_cert, tls_key and tls_client_ca; null without tls_cert. Errors:
// InvalidArgument (names the setting and the file).
absl::StatusOr<std::shared_ptr<Certificates>> LoadCertificates(const Settings& settings);

// Returns TLS with `certificates`: each new connection uses those that are in force then. Without
// them, returns gRPC's credentials of local connections for a unix socket and for loopback, which
// refuse every other connection; else none.
std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(
    const Settings& settings, std::shared_ptr<const Certificates> certificates);

}  // namespace nearfield::server
