// WithEnvironment: options from environment variables.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "client/cpp/text.h"
#include "nearfield/client/options.h"

namespace nearfield::client {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): see the header
  return value == nullptr ? "" : value;
}

void FillFrom(const char* name, std::string* option) {
  if (option->empty()) *option = Variable(name);
}

}  // namespace

absl::StatusOr<ClientOptions> WithEnvironment(ClientOptions options) {
  if (const std::string address = Variable("NEARFIELD_ADDRESS");
      !address.empty() && options.address == ClientOptions().address) {
    options.address = address;
  }
  FillFrom("NEARFIELD_CALLER", &options.caller);
  FillFrom("NEARFIELD_CA", &options.ca_file);
  FillFrom("NEARFIELD_CLIENT_CERT", &options.client_cert_file);
  FillFrom("NEARFIELD_CLIENT_KEY", &options.client_key_file);
  FillFrom("NEARFIELD_TOKEN_FILE", &options.token_file);
  if (!options.metadata.empty()) return options;
  const std::string given = Variable("NEARFIELD_METADATA");
  for (std::string_view rest = given; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return absl::InvalidArgumentError(
          Cat("NEARFIELD_METADATA: ", entry, ": must be name=value,name=value"));
    }
    options.metadata.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return options;
}

}  // namespace nearfield::client
