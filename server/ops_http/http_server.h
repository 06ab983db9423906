// HttpServer: a small HTTP server for GET and HEAD, bounded in threads, connections, bytes and
// time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/browser_guard.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

// Bounds of the server. Each connection carries one request.
inline constexpr int kHttpThreads = 8;            // other requests that are answered concurrently
inline constexpr int kHttpProbeThreads = 2;       // probes that are answered concurrently
inline constexpr int kHttpConnectionsMax = 256;   // open connections; more wait in the kernel
inline constexpr int kHttpHeaderBytesMax = 8192;  // of a request
inline constexpr int kHttpSilentMs = 200;         // for the first byte of a request to arrive
inline constexpr int kHttpRequestMs = 1000;       // for the whole header to arrive
inline constexpr int kHttpReplyMs = 5000;         // for the reply to be taken

struct HttpRequest {
  std::string path;  // "/metrics", decoded, without a query
  BrowserHeaders browser;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  struct Options {
    std::string listen;  // "HOST:PORT", "[IPV6]:PORT"; see ListenSockets::Bind
    // Another server that scripts of this one may call, as Content-Security-Policy names it:
    // "https://*:50052"; empty: none.
    std::string calls_to = {};
    // Answers a request. Called on the threads of the server, several at a time.
    std::function<HttpReply(const HttpRequest&)> answer;
    // Returns true for the path of a probe. Probes have threads of their own, so that other
    // requests cannot delay them.
    std::function<bool(const std::string& path)> is_probe;
    Log* log = nullptr;  // outlives the server
  };

  // Binds the address and answers. Errors: InvalidArgument (the address cannot be bound).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Options options);
  // Waits until no handler runs; none is called any more. Does not wait for clients.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  struct Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
};

}  // namespace nearfield::server
