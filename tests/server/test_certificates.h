// Certificates for tests: an authority, and certificates that it signs, as PEM files.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "gmock/gmock.h"

namespace nearfield::server {

// Validity from now, in seconds.
struct Validity {
  long begin_s = -3600;  // NOLINT(google-runtime-int): OpenSSL's type
  long end_s = 3600;     // NOLINT(google-runtime-int)
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name) : name_(name), key_(NewKey()) {
    certificate_ = NewCertificate(name, key_.get(), {});
    AddExtension(NID_basic_constraints, "critical,CA:TRUE");
    Sign(certificate_.get());
  }

  void Write(const std::string& path) const { WriteCertificate(path, certificate_.get()); }

  // Writes a certificate for 127.0.0.1 and its private key.
  void Issue(const std::string& certificate_path, const std::string& key_path,
             const Validity& validity = {}) const {
    const KeyPtr key = NewKey();
    const CertificatePtr certificate = NewCertificate("leaf of " + name_, key.get(), validity);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
    X509_EXTENSION* const names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate.get(), names, -1);
    X509_EXTENSION_free(names);
    Sign(certificate.get());
    WriteCertificate(certificate_path, certificate.get());
    WriteKey(key_path, key.get());
  }

 private:
  template <auto Free>
  struct Freer {
    template <typename T>
    void operator()(T* object) const {
      Free(object);
    }
  };
  using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
  using CertificatePtr = std::unique_ptr<X509, Freer<X509_free>>;
  using FilePtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;

  static KeyPtr NewKey() { return KeyPtr(EVP_EC_gen("P-256")); }

  // Returns an unsigned certificate, whose issuer is itself.
  static CertificatePtr NewCertificate(const std::string& name, EVP_PKEY* key,
                                       const Validity& validity) {
    static long serial = 0;  // NOLINT(google-runtime-int)
    CertificatePtr certificate(X509_new());
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), validity.begin_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), validity.end_s);
    X509_set_pubkey(certificate.get(), key);
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
    return certificate;
  }

  void AddExtension(int nid, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  void Sign(X509* certificate) const {
    EXPECT_GT(X509_sign(certificate, key_.get(), EVP_sha256()), 0);
  }

  static void WriteCertificate(const std::string& path, X509* certificate) {
    const FilePtr file(BIO_new_file(path.c_str(), "w"));
    EXPECT_EQ(PEM_write_bio_X509(file.get(), certificate), 1);
  }
  static void WriteKey(const std::string& path, EVP_PKEY* key) {
    const FilePtr file(BIO_new_file(path.c_str(), "w"));
    EXPECT_EQ(PEM_write_bio_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr), 1);
  }

  const std::string name_;
  const KeyPtr key_;
  CertificatePtr certificate_;
};

}  // namespace nearfield::server
