// How a client connects, how long it waits, and how often it tries.
#ifndef NEARFIELD_CLIENT_OPTIONS_H_
#define NEARFIELD_CLIENT_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace nearfield::client {

// Only calls that may safely be repeated are: searches, reads, checks, deletes, and the opening of
// an upload. Never: the making or dropping of a collection, an alias or a snapshot, nor an upload
// once it has begun, unless it has a token (Client::UploadWithToken).
struct RetryPolicy {
  int32_t tries_max = 4;                        // 1: never again
  std::chrono::milliseconds backoff_first{50};  // before the second try; doubles from there
  std::chrono::milliseconds backoff_max{2000};
};

struct ClientOptions {
  std::string address = "127.0.0.1:50051";  // host:port, or unix:/path
  std::chrono::milliseconds deadline{
      30000};  // of one call with all its tries; an upload has none by default
  RetryPolicy retry;
  // Who calls, for the server to share its device fairly: 1 .. 128 printable ASCII characters.
  // Empty: the server takes the address that the call comes from.
  std::string caller;
};

// Settings of a single call.
struct CallOptions {
  std::optional<std::chrono::milliseconds> deadline;  // absent: that of the client
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_OPTIONS_H_
