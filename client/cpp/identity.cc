#include "client/cpp/identity.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>

#include "absl/strings/ascii.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr std::streamsize kFileBytesMax = 1 << 20;
constexpr std::string_view kSystemAuthorities = "system";
constexpr std::string_view kKeyBegin = "nf_";  // as api_key.h writes it

// Returns the content of a file. `option` is used in messages.
absl::StatusOr<std::string> ReadFileOf(std::string_view option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() && path.starts_with(kKeyBegin)) {  // a secret: the message must not have it
    return absl::InvalidArgumentError(Cat(option, ": this is a key, not the name of a file"));
  }
  if (!file.is_open() || file.bad() || file.gcount() == 0) {
    return absl::InvalidArgumentError(Cat(option, ": ", path, ": cannot be read, or is empty"));
  }
  if (file.gcount() > kFileBytesMax) {
    return absl::InvalidArgumentError(
        Cat(option, ": ", path, ": more than ", kFileBytesMax, " bytes"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// Checks that a certificate and a private key in PEM belong together: gRPC would report no more
// than a connection that failed.
absl::Status CheckPair(const ClientOptions& options, const grpc::SslCredentialsOptions& tls) {
  const auto reader = [](const std::string& text) {
    return std::unique_ptr<BIO, decltype(&BIO_free)>(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  };
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(reader(tls.pem_cert_chain).get(), nullptr, no_passphrase, nullptr),
      X509_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(reader(tls.pem_private_key).get(), nullptr, no_passphrase, nullptr),
      EVP_PKEY_free);
  const bool fits = certificate && key && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  const std::string& path = options.client_cert_file;
  return absl::InvalidArgumentError(
      !certificate ? Cat("client_cert_file: ", path, ": has no certificate in PEM")
                   : Cat("client_key_file: ", options.client_key_file, ": ",
                         key ? Cat("is not the key of ", path)
                             : "has no private key in PEM without a passphrase"));
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Returns true if calls to the address stay on this machine.
bool IsLocal(std::string_view address) {
  for (const std::string_view scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (address.starts_with(scheme)) {
      address.remove_prefix(scheme.size());
      break;
    }
  }
  for (const std::string_view local :
       {"unix:", "unix-abstract:", "127.0.0.1:", "[::1]:", "localhost:"}) {
    // A list of addresses may also name other machines.
    if (address.starts_with(local)) return address.find(',') == std::string_view::npos;
  }
  return false;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelOf(const ClientOptions& options) {
  if (options.client_cert_file.empty() != options.client_key_file.empty()) {
    return absl::InvalidArgumentError("client_cert_file, client_key_file: give both or none");
  }
  if (options.ca_file.empty()) {
    if (options.client_cert_file.empty()) return grpc::InsecureChannelCredentials();
    return absl::InvalidArgumentError("client_cert_file: needs ca_file, because it is for TLS");
  }
  grpc::SslCredentialsOptions tls;
  if (options.ca_file != kSystemAuthorities) {
    NF_ASSIGN_OR_RETURN(tls.pem_root_certs, ReadFileOf("ca_file", options.ca_file));
    if (tls.pem_root_certs.find("CERTIFICATE-----") == std::string::npos) {
      return absl::InvalidArgumentError(
          Cat("ca_file: ", options.ca_file, ": has no certificate in PEM"));
    }
  }
  if (!options.client_cert_file.empty()) {
    NF_ASSIGN_OR_RETURN(tls.pem_cert_chain,
                        ReadFileOf("client_cert_file", options.client_cert_file));
    NF_ASSIGN_OR_RETURN(tls.pem_private_key,
                        ReadFileOf("client_key_file", options.client_key_file));
    NF_RETURN_IF_ERROR(CheckPair(options, tls));
  }
  return grpc::SslCredentials(tls);
}

absl::Status CheckMetadata(const ClientOptions& options) {
  for (const auto& [name, value] : options.metadata) {
    const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_islower(static_cast<unsigned char>(c)) ||
             absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
             std::string_view("-_.").find(c) != std::string_view::npos;
    });
    if (!good || !IsPrintable(value)) {
      return absl::InvalidArgumentError(
          Cat("metadata: ", name, ": names have a-z 0-9 - _ . and values printable ASCII"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Identity> ReadIdentity(const ClientOptions& options) {
  NF_RETURN_IF_ERROR(CheckMetadata(options));
  Identity identity;
  NF_ASSIGN_OR_RETURN(identity.channel, ChannelOf(options));
  if (options.token_file.empty()) return identity;
  if (options.ca_file.empty() && !IsLocal(options.address)) {
    return absl::InvalidArgumentError(
        Cat("token_file: without ca_file the key would be sent unencrypted to ", options.address));
  }
  NF_ASSIGN_OR_RETURN(const std::string text, ReadFileOf("token_file", options.token_file));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty() || !IsPrintable({token.data(), token.size()})) {
    return absl::InvalidArgumentError(
        Cat("token_file: ", options.token_file, ": has no key of printable ASCII characters"));
  }
  identity.authorization = Cat("Bearer ", token);
  return identity;
}

}  // namespace nearfield::client
