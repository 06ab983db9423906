#include "server/security/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "client/keys/regular_file.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
using CertificatePtr = std::unique_ptr<X509, Freer<X509, X509_free>>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using TextPtr = std::unique_ptr<BIO, Freer<BIO, BIO_free_all>>;

constexpr size_t kFileBytesMax = size_t{1} << 20;

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

TextPtr Reader(const std::string& text) {
  return TextPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<CertificatePtr> FirstCertificate(const std::string& path, const std::string& text) {
  CertificatePtr certificate(PEM_read_bio_X509(Reader(text).get(), nullptr, NoPassphrase, nullptr));
  if (certificate == nullptr) return BadFile(path, "has no certificate in PEM");
  return certificate;
}

// Checks the pair. Returns the time at which the certificate expires.
absl::StatusOr<int64_t> CheckPair(const Certificates::Files& files, const CertificateTexts& texts) {
  ABSL_ASSIGN_OR_RETURN(const CertificatePtr certificate,
                        FirstCertificate(files.certificate, texts.certificate));
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    return BadFile(files.certificate, "the certificate is not valid yet");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return BadFile(files.certificate, "the certificate has expired");
  }
  const PrivateKeyPtr key(
      PEM_read_bio_PrivateKey(Reader(texts.key).get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return BadFile(files.key, "has no private key in PEM without a passphrase");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return BadFile(files.key, "is not the private key of the certificate");
  }
  std::tm expires = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &expires);
  return static_cast<int64_t>(timegm(&expires));
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  ABSL_ASSIGN_OR_RETURN(RegularFile file, ReadRegularFile(path, kFileBytesMax));
  return std::move(file.text);
}

absl::StatusOr<CertificateTexts> Read(const Certificates::Files& files) {
  CertificateTexts texts;
  ABSL_ASSIGN_OR_RETURN(texts.certificate, ReadText(files.certificate));
  ABSL_ASSIGN_OR_RETURN(texts.key, ReadText(files.key));
  if (files.client_authorities.empty()) return texts;
  ABSL_ASSIGN_OR_RETURN(texts.client_authorities, ReadText(files.client_authorities));
  ABSL_RETURN_IF_ERROR(
      FirstCertificate(files.client_authorities, texts.client_authorities).status());
  return texts;
}

}  // namespace

absl::StatusOr<bool> Certificates::Load() {
  absl::StatusOr<CertificateTexts> texts = Read(files_);
  const absl::StatusOr<int64_t> expires =
      texts.ok() ? CheckPair(files_, *texts) : absl::StatusOr<int64_t>(texts.status());
  const MutexLock lock(mutex_);
  state_.latest = expires.status();
  if (!expires.ok()) {
    ++state_.failures_count;
    return expires.status();
  }
  if (state_.in_force != nullptr && *state_.in_force == *texts) return false;
  state_.in_force = std::make_shared<const CertificateTexts>(*std::move(texts));
  state_.expires_unix_s = *expires;
  return true;
}

Certificates::State Certificates::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

}  // namespace nearfield::server
