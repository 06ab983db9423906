// HttpServer: a small HTTP server for GET and HEAD, bounded in threads, connections, bytes and
// time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/telemetry/log.h"

struct mg_context;

namespace nearfield::server {

// Bounds of the server. Each connection carries one request.
inline constexpr int kHttpThreads = 8;          // requests that are answered concurrently
inline constexpr int kHttpConnectionsMax = 16;  // connections that wait for a thread
inline constexpr int kHttpHeaderBytesMax = 8192;
inline constexpr int kHttpRequestMs =
    1000;  // for the whole header to arrive, and for a stalled reply to go on
inline constexpr int kHttpReplyMs = 5000;  // for the reply to be taken

struct HttpRequest {
  std::string path;   // "/metrics", decoded
  std::string query;  // after '?', not decoded
  // Headers; empty if absent.
  std::string host;
  std::string authorization;
  std::string origin;      // of the page whose script sent the request
  std::string fetch_site;  // Sec-Fetch-Site: how that page is related to this server
};

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Returns a parameter of HttpRequest::query, decoded; nullopt if there is none of this name.
std::optional<std::string> ParameterIn(const std::string& query, const std::string& name);

class HttpServer {
 public:
  // Called on the threads of the server, several at a time.
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // Binds `listen`, "ADDRESS:PORT" with an IPv4 address, "[IPV6]:PORT" or "localhost:PORT", and
  // answers. `log` outlives the server. Errors: InvalidArgument (the address cannot be bound).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& listen,
                                                           Handler handler, Log* log);
  // Waits until no handler runs; none is called any more. Does not wait for clients: connections
  // end in the background.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  struct Shared;
  explicit HttpServer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  const std::shared_ptr<Shared> shared_;  // also of the server's threads
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace nearfield::server
