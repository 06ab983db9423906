// TestServer: the real server in this process, behind a proxy. The proxy records the calls. Where a
// test says so it also ends a call or changes a reply, as a server never does. Needs no gRPC
// header.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"

namespace nearfield::client {

// A scripted end of a call.
struct Refusal {
  absl::Status status;
  std::optional<std::string> retry_after_ms = std::nullopt;  // as sent
  bool after_reply = false;                                  // OnReply: the reply is sent first
};

// The calls of one method.
struct CallRecord {
  int calls = 0;
  std::vector<int64_t> deadlines_ms;  // time left to each call's deadline when it began
  std::vector<std::string> requests;  // messages of all calls that were not refused
  std::string caller;                 // of the last call
  std::string request_id;             // that the last call ended with
};

class TestServer {
 public:
  // Called with the bytes of a reply.
  using Hook = std::function<std::optional<Refusal>(std::string*)>;

  TestServer();
  ~TestServer();

  // Sets a setting of the server by its name. Requires: neither address() nor Listen was called.
  void Set(const std::string& setting, const std::string& value);
  // Gives the server directories for data and snapshots; else it keeps no data. Requires: as Set.
  void KeepData();
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
  template <typename Reply, typename ReplyHook>
  void OnReply(const std::string& method, ReplyHook hook) {
    SetHook(method, [hook](std::string* bytes) mutable -> std::optional<Refusal> {
      Reply reply;
      EXPECT_TRUE(reply.ParseFromString(*bytes));
      std::optional<Refusal> end;
      if constexpr (std::is_void_v<std::invoke_result_t<ReplyHook, Reply*>>) {
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

  CallRecord record(const std::string& method) const;
  int calls(const std::string& method) const { return record(method).calls; }
  std::string caller(const std::string& method) const { return record(method).caller; }
  std::string request_id(const std::string& method) const { return record(method).request_id; }
  std::vector<int64_t> deadlines_ms(const std::string& method) const {
    return record(method).deadlines_ms;
  }
  // Returns the messages of all calls of a method that were not refused.
  template <typename Request>
  std::vector<Request> requests(const std::string& method) const {
    std::vector<Request> requests;
    for (const std::string& bytes : record(method).requests)
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
  struct Impl;

  void SetHook(const std::string& method, Hook hook);

  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client
