// Options of a client: its connection, its deadlines and its retries.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace nearfield::client {

// How often calls are retried. Only calls that can be repeated safely are retried: searches, reads,
// checks, deletes, updates with a token, and the opening of an upload. Never retried: other
// updates, creating or dropping a collection, an attribute, an alias or a snapshot, and an upload
// once it has begun, unless it has a token (Client::UploadWithToken).
struct RetryPolicy {
  int32_t tries_max = 4;                        // 1: no retry
  std::chrono::milliseconds backoff_first{50};  // before the second try; doubles with each try
  std::chrono::milliseconds backoff_max{2000};
};

struct ClientOptions {
  std::string address = "127.0.0.1:50051";  // host:port, or unix:/path
  std::chrono::milliseconds deadline{
      30000};  // of one call including its retries; an upload has none by default
  RetryPolicy retry;
  // Name of the caller, by which the server shares its device fairly: 1 .. 128 printable ASCII
  // characters. Empty: the server uses the address of the call.
  std::string caller;
  // File with the authorities that the server's certificate is checked against, PEM, or "system"
  // for those of the machine. Empty: no TLS.
  std::string ca_file;
  // Files with the certificate and the private key of this client, PEM; both or none.
  std::string client_cert_file;
  std::string client_key_file;
  // File with the API key, read when the client is made. Without TLS, only for a server on this
  // machine. Empty: no key.
  std::string token_file;
  // Sent with each call, for example to a proxy: names in lower case, printable ASCII values.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Returns `options`; members that are empty are those of the environment: NEARFIELD_CA,
// NEARFIELD_CLIENT_CERT, NEARFIELD_CLIENT_KEY, NEARFIELD_TOKEN_FILE, and NEARFIELD_METADATA
// ("name=value,name=value"); the address and the caller, unless they were set, those of
// NEARFIELD_ADDRESS and NEARFIELD_CALLER. Not thread-safe with changes of the environment.
// Errors: InvalidArgument (NEARFIELD_METADATA).
absl::StatusOr<ClientOptions> WithEnvironment(ClientOptions options = {});

// Settings of a single call.
struct CallOptions {
  std::optional<std::chrono::milliseconds> deadline;  // absent: the client's deadline
};

}  // namespace nearfield::client
