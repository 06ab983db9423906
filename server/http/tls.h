// TlsContexts: the TLS of new connections, with the certificate in force.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "absl/status/statusor.h"
#include "server/security/certificates.h"

namespace nearfield::server {

// Used by one thread.
class TlsContexts {
 public:
  explicit TlsContexts(std::shared_ptr<const Certificates> certificates)
      : certificates_(std::move(certificates)) {}

  // Returns the context for a new connection: TLS 1.2 or later, and a certificate of the client
  // where the server requires one. Errors: Internal (OpenSSL refuses a file).
  absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> Current();

 private:
  const std::shared_ptr<const Certificates> certificates_;
  std::shared_ptr<const CertificateTexts> texts_;  // of `context_`
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace nearfield::server
