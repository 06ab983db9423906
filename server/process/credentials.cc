#include "server/process/credentials.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/security/certificate_files.h"

namespace nearfield::server {
namespace {

// Returns the status of a check with the name of the setting before its message.
absl::Status Of(const TextSetting& setting, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(setting.name(), ": ", status.message()));
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(const Settings& settings) {
  const std::string& client_ca = settings.tls_client_ca.value();
  ABSL_RETURN_IF_ERROR(Of(settings.tls_cert, CheckCertificateFiles(settings.tls_cert.value(),
                                                                   settings.tls_key.value())));
  if (!client_ca.empty()) {
    ABSL_RETURN_IF_ERROR(Of(settings.tls_client_ca, CheckAuthorityFile(client_ca)));
  }
  const auto files = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      settings.tls_key.value(), settings.tls_cert.value(), client_ca,
      static_cast<unsigned int>(settings.tls_reload_s.value()));
  grpc::experimental::TlsServerCredentialsOptions options(files);
  options.watch_identity_key_cert_pairs();
  if (!client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsOf(
    const Settings& settings) {
  if (!settings.tls_cert.value().empty()) return TlsCredentials(settings);
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
