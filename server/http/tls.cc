#include "server/http/tls.h"

#include <boost/asio/buffer.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nearfield::server {

namespace ssl = boost::asio::ssl;
using boost::asio::buffer;

absl::StatusOr<std::shared_ptr<ssl::context>> TlsContexts::Current() {
  std::shared_ptr<const CertificateTexts> texts = certificates_->state().in_force;
  if (texts == texts_) return context_;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);  // of idle connections
  boost::system::error_code error;
  context->use_certificate_chain(buffer(texts->certificate), error);
  if (!error) context->use_private_key(buffer(texts->key), ssl::context::pem, error);
  if (!error && !texts->client_authorities.empty()) {
    context->add_certificate_authority(buffer(texts->client_authorities), error);
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  if (error) return absl::InternalError(absl::StrCat("TLS: ", error.message()));
  texts_ = std::move(texts);
  context_ = std::move(context);
  return context_;
}

}  // namespace nearfield::server
