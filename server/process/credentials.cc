#include "server/process/credentials.h"

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace nearfield::server {
namespace {

// gRPC asks for the certificates at the beginning of each handshake. Its own FileWatcher swaps a
// pair whose key does not match, after which no handshake succeeds.
class TlsCredentials final : public grpc::ServerCredentials {
 public:
  explicit TlsCredentials(std::shared_ptr<const Certificates> certificates)
      : certificates_(std::move(certificates)) {
    const bool asks_clients = !certificates_->state().in_force->client_authorities.empty();
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            asks_clients ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            &TlsCredentials::Fetch, this));
  }
  ~TlsCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC makes one call at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto* const credentials = static_cast<TlsCredentials*>(self);
    std::shared_ptr<const CertificateTexts> now = credentials->certificates_->state().in_force;
    if (now == credentials->fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {.private_key = now->key.c_str(),
                                             .cert_chain = now->certificate.c_str()};
    // gRPC wants authorities also where no client is asked for a certificate. There they are not
    // used.
    const std::string& authorities =
        now->client_authorities.empty() ? now->certificate : now->client_authorities;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    credentials->fetched_ = std::move(now);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const Certificates> certificates_;
  std::shared_ptr<const CertificateTexts> fetched_;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Certificates>> LoadCertificates(const Settings& settings) {
  if (settings.tls_cert.value().empty()) return nullptr;
  auto certificates = std::make_shared<Certificates>(
      Certificates::Files{.certificate = settings.tls_cert.value(),
                          .key = settings.tls_key.value(),
                          .client_authorities = settings.tls_client_ca.value()});
  const absl::Status loaded = certificates->Load().status();
  if (loaded.ok()) return certificates;
  return absl::InvalidArgumentError(
      absl::StrCat("tls_cert, tls_key, tls_client_ca: ", loaded.message()));
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentialsOf(
    const Settings& settings, std::shared_ptr<const Certificates> certificates) {
  if (certificates != nullptr) return std::make_shared<TlsCredentials>(std::move(certificates));
  const std::string& listen = settings.listen.value();
  if (absl::StartsWith(listen, "unix:")) return grpc::experimental::LocalServerCredentials(UDS);
  // gRPC takes only these two addresses for local.
  for (const char* const host : {"127.0.0.1:", "[::1]:", "localhost:"}) {
    if (absl::StartsWith(listen, host)) {
      return grpc::experimental::LocalServerCredentials(LOCAL_TCP);
    }
  }
  return grpc::InsecureServerCredentials();
}

}  // namespace nearfield::server
