// Checks of the files with certificates and keys. gRPC reads them itself, but reports a bad file
// only in handshakes that fail.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace nearfield::server {

// Checks that the first certificate of `certificate_path` is valid now, and that `key_path` has its
// private key, without a passphrase; both PEM. Errors: InvalidArgument (names the file).
absl::Status CheckCertificateFiles(const std::string& certificate_path,
                                   const std::string& key_path);
// Checks that the PEM file has a certificate. Errors: as above.
absl::Status CheckAuthorityFile(const std::string& path);

}  // namespace nearfield::server
