// TestServer: the real server in this process, behind a proxy. The proxy records the calls, and
// ends or changes them where a test says so: replies that a server never sends. Needs no gRPC
// header.
#ifndef NEARFIELD_TESTS_CLIENT_TEST_SERVER_H_
#define NEARFIELD_TESTS_CLIENT_TEST_SERVER_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace nearfield::client {

// A scripted end of a call.
struct Refusal {
  absl::Status status;
  std::optional<std::string> retry_after_ms = std::nullopt;  // as sent
  bool after_reply = false;                                  // OnReply: the reply is sent first
};

class TestServer {
 public:
  TestServer();
  ~TestServer();

  // Sets a setting of the server by its name. Requires: neither address() nor Listen was called.
  void Set(const std::string& setting, const std::string& value);
  // Listens without serving: health is NOT_SERVING. Requires: address() was not called.
  void Listen();
  // Returns the address of the proxy. The first call starts the server, unless it listens.
  std::string address() const;
  // Starts to drain the server on another thread.
  void StartDrain();

  // The next calls of a method, such as "Search", end with `refusals`, without the server.
  void Refuse(const std::string& method, std::vector<Refusal> refusals);
  // Calls `hook(Reply*)` with every later reply to `method`. The hook may change it, and may
  // return a Refusal, which ends the call.
  template <typename Reply, typename Hook>
  void OnReply(const std::string& method, Hook hook) {
    SetHook(method, [hook](std::string* bytes) mutable -> std::optional<Refusal> {
      Reply reply;
      EXPECT_TRUE(reply.ParseFromString(*bytes));
      std::optional<Refusal> end;
      if constexpr (std::is_void_v<std::invoke_result_t<Hook, Reply*>>) {
        hook(&reply);
      } else {
        end = hook(&reply);
      }
      *bytes = reply.SerializeAsString();
      return end;
    });
  }

  // Waits until this object is destroyed, or for `wait_max`; a hook calls it to delay a reply.
  void AwaitEnd(std::chrono::milliseconds wait_max = std::chrono::hours(1));

  int calls(const std::string& method) const;
  // Returns the milliseconds left until the deadline, at the start of each call of the method.
  std::vector<int64_t> deadlines_ms(const std::string& method) const;
  // Returns the caller of the last call, and the request id that it ended with.
  std::string caller(const std::string& method) const;
  std::string request_id(const std::string& method) const;
  // Returns the messages of all calls of a method that were not refused.
  template <typename Request>
  std::vector<Request> requests(const std::string& method) const {
    std::vector<Request> requests;
    for (const std::string& bytes : request_bytes(method))
      EXPECT_TRUE(requests.emplace_back().ParseFromString(bytes)) << method;
    return requests;
  }
  template <typename Request>
  Request last(const std::string& method) const {
    const std::vector<Request> all = requests<Request>(method);
    EXPECT_FALSE(all.empty()) << method;
    return all.empty() ? Request() : all.back();
  }

 private:
  class Impl;
  using Hook = std::function<std::optional<Refusal>(std::string*)>;

  void SetHook(const std::string& method, Hook hook);
  std::vector<std::string> request_bytes(const std::string& method) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_TESTS_CLIENT_TEST_SERVER_H_
