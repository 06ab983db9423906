// Options of a client: its connection, its deadlines and its retries.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace nearfield::client {

// How often calls are retried. Only calls that can be repeated safely are retried: searches, reads,
// checks, deletes, and the opening of an upload. Never retried: creating or dropping a collection,
// an alias or a snapshot, and an upload once it has begun, unless it has a token
// (Client::UploadWithToken).
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
};

// Settings of a single call.
struct CallOptions {
  std::optional<std::chrono::milliseconds> deadline;  // absent: the client's deadline
};

}  // namespace nearfield::client
