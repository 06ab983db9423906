#include "server/security/certificate_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
using CertificatePtr = std::unique_ptr<X509, Freer<X509, X509_free>>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using FilePtr = std::unique_ptr<BIO, Freer<BIO, BIO_free_all>>;

absl::Status BadFile(const std::string& path, const char* problem) {
  std::array<char, 256> reason = {};
  if (const unsigned long error = ERR_get_error(); error != 0) {  // NOLINT(google-runtime-int)
    ERR_error_string_n(error, reason.data(), reason.size());
  }
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", problem, reason.front() == '\0' ? "" : ": ", reason.data()));
}

// Answers the question for a passphrase: there is none.
int NoPassphrase(char* /*text*/, int /*size*/, int /*rwflag*/, void* /*data*/) { return -1; }

absl::StatusOr<CertificatePtr> FirstCertificate(const std::string& path) {
  const FilePtr file(BIO_new_file(path.c_str(), "r"));
  if (file == nullptr) return BadFile(path, "cannot be read");
  CertificatePtr certificate(PEM_read_bio_X509(file.get(), nullptr, NoPassphrase, nullptr));
  if (certificate == nullptr) return BadFile(path, "has no certificate in PEM");
  return certificate;
}

}  // namespace

absl::Status CheckCertificateFiles(const std::string& certificate_path,
                                   const std::string& key_path) {
  ABSL_ASSIGN_OR_RETURN(const CertificatePtr certificate, FirstCertificate(certificate_path));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    return BadFile(certificate_path, "the certificate is not valid yet");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return BadFile(certificate_path, "the certificate has expired");
  }
  const FilePtr file(BIO_new_file(key_path.c_str(), "r"));
  if (file == nullptr) return BadFile(key_path, "cannot be read");
  const PrivateKeyPtr key(PEM_read_bio_PrivateKey(file.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return BadFile(key_path, "has no private key in PEM without a passphrase");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return BadFile(key_path, "is not the private key of the certificate");
  }
  return absl::OkStatus();
}

absl::Status CheckAuthorityFile(const std::string& path) { return FirstCertificate(path).status(); }

}  // namespace nearfield::server
