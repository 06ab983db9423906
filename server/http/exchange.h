// Exchange: one HTTP request and its reply, as the code of a call sees them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/http/browser_guard.h"

namespace nearfield::server {

// The head of a request. Texts are empty if the client sent no such header.
struct RequestHead {
  std::string verb;    // the method of HTTP
  std::string target;  // as the client sent it, not decoded
  BrowserHeaders browser;
  std::string authorization;
  std::string content_type;
  std::string request_id;
  std::string caller_name;
  std::string trace_parent;
  std::string timeout_ms;
  std::string peer;  // "ipv4:127.0.0.1:51234"
  std::optional<uint64_t> content_length;
  bool has_body = false;
  bool is_http_1_0 = false;
  bool has_two_keys = false;  // the header Authorization is given more than once
};

struct ReplyHead {
  int status = 200;
  std::string content_type = "application/json";
  std::string more = {};  // further headers, each ends with CRLF
};

// The continuation of a reply after a line.
enum class AfterLine : uint8_t {
  kMore,  // another line
  kEnd,   // nothing: the reply is complete
  kCut,   // nothing, and the client notices that the reply is not complete
};

// All functions except Post are called on the strand of the connection, where it also calls the
// functions that it is given.
class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  virtual const RequestHead& head() const = 0;
  // Runs `step` on the strand, after the current one. Thread-safe.
  virtual void Post(std::function<void()> step) = 0;

  // Reads a part of the body, at most `size` bytes to `to`, which stays valid until `done`. Passes
  // the bytes that were read; 0: the body is over; nullopt: the client has left. One read at a
  // time.
  virtual void ReadBody(char* to, size_t size, std::function<void(std::optional<size_t>)> done) = 0;
  // Calls `left` if the client leaves before the reply is over. It is noticed when the whole body
  // was read, or at the next read.
  virtual void Watch(std::function<void()> left) = 0;
  // Calls `late` after this time, unless the reply is over or StopTimer was called before.
  virtual void StartTimer(std::chrono::milliseconds time, std::function<void()> late) = 0;
  virtual void StopTimer() = 0;

  // Adds headers to the reply; each ends with CRLF.
  virtual void AddHeaders(std::string headers) = 0;
  // `sent` receives false if the client does not take the reply.
  using OnSent = std::function<void(bool ok)>;
  // Sends a whole reply, the only one.
  virtual void Reply(const ReplyHead& head, std::string body, OnSent sent) = 0;
  // Sends a line of a reply; `head` counts at the first one. An empty line is not sent. One line at
  // a time.
  virtual void SendLine(const ReplyHead& head, std::string line, AfterLine after, OnSent sent) = 0;
  // Ends the connection.
  virtual void Close() = 0;
};

}  // namespace nearfield::server
