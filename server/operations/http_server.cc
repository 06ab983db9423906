#include "server/operations/http_server.h"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/mutex.h"

namespace nearfield::server {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// A write of this size waits for the client at most once, so the deadline is checked in between.
constexpr size_t kWriteBytes = 4096;

const char* ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 429: return "Too Many Requests";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Error";
  }
}

// Replies may contain text of clients, so no browser may take one for a program, embed it, or run a
// script or load a style that this server did not send. Trusted types: no text becomes HTML.
constexpr char kSecurityHeaders[] =
    "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY"
    "\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin"
    "\r\nCross-Origin-Opener-Policy: same-origin"
    "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

std::string HeaderOf(const HttpReply& reply) {
  return absl::StrCat("HTTP/1.1 ", reply.status, " ", ReasonOf(reply.status),
                      "\r\nContent-Type: ", reply.content_type,
                      "\r\nContent-Length: ", reply.body.size(), "\r\nConnection: close",
                      kSecurityHeaders, "\r\n\r\n");
}

// Writes the text before the deadline. Returns false if the client has left or is too slow.
bool Write(mg_connection* connection, std::string_view text, SteadyTime deadline) {
  while (!text.empty()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    const std::string_view part = text.substr(0, kWriteBytes);
    if (mg_write(connection, part.data(), part.size()) != static_cast<int>(part.size())) {
      return false;
    }
    text.remove_prefix(part.size());
  }
  return true;
}

HttpRequest RequestOf(mg_connection* connection) {
  const mg_request_info& info = *mg_get_request_info(connection);
  const auto text = [](const char* found) { return std::string(found != nullptr ? found : ""); };
  const auto header = [&](const char* name) { return text(mg_get_header(connection, name)); };
  return {.path = text(info.local_uri),
          .query = text(info.query_string),
          .host = header("Host"),
          .authorization = header("Authorization"),
          .origin = header("Origin"),
          .fetch_site = header("Sec-Fetch-Site")};
}

}  // namespace

std::optional<std::string> ParameterIn(const std::string& query, const std::string& name) {
  std::string value(query.size() + 1, '\0');
  const int bytes =
      mg_get_var(query.data(), query.size(), name.c_str(), value.data(), value.size());
  if (bytes < 0) return std::nullopt;
  value.resize(static_cast<size_t>(bytes));
  return value;
}

// The part that the threads of civetweb use. They end only after the HttpServer.
struct HttpServer::Shared {
  Shared(Handler handler_in, Log* log_in) : handler(std::move(handler_in)), log(log_in) {}

  // Runs the handler, unless the server has ended.
  HttpReply Answer(const HttpRequest& request) {
    {
      const MutexLock lock(mutex);
      if (ended) return {.status = 503, .body = "the server ends\n"};
      ++running;
    }
    HttpReply reply = handler(request);
    const MutexLock lock(mutex);
    if (--running == 0) idle.NotifyAll();
    return reply;
  }
  // Waits until no handler runs. None runs afterwards.
  void End() {
    MutexLock lock(mutex);
    ended = true;
    while (running > 0) idle.Wait(lock);
  }

  static int OnRequest(mg_connection* connection);
  static int OnMessage(const mg_connection* connection, const char* message);

  const Handler handler;
  Log* const log;
  Mutex mutex;
  CondVar idle;
  int running ABSL_GUARDED_BY(mutex) = 0;
  bool ended ABSL_GUARDED_BY(mutex) = false;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& listen,
                                                              Handler handler, Log* log) {
  auto server = std::unique_ptr<HttpServer>(
      new HttpServer(std::make_shared<Shared>(std::move(handler), log)));
  // civetweb knows addresses only.
  const std::string address = absl::StrReplaceAll(listen, {{"localhost:", "127.0.0.1:"}});
  const std::string threads = absl::StrCat(kHttpThreads);
  const std::string waiting = absl::StrCat(kHttpConnectionsMax);
  const std::string request_ms = absl::StrCat(kHttpRequestMs);
  const std::string header_bytes = absl::StrCat(kHttpHeaderBytesMax);
  const std::array<const char*, 15> options = {"listening_ports",
                                               address.c_str(),  //
                                               "num_threads",
                                               threads.c_str(),  //
                                               "connection_queue",
                                               waiting.c_str(),  //
                                               "listen_backlog",
                                               waiting.c_str(),  //
                                               "request_timeout_ms",
                                               request_ms.c_str(),  //
                                               "max_request_size",
                                               header_bytes.c_str(),  //
                                               "enable_keep_alive",
                                               "no",  //
                                               nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = Shared::OnRequest;
  callbacks.log_message = Shared::OnMessage;
  mg_init_data init = {.callbacks = &callbacks,
                       .user_data = server->shared_.get(),
                       .configuration_options = const_cast<const char**>(options.data())};
  std::array<char, 256> text = {};
  mg_error_data error = {.code = nullptr, .text = text.data(), .text_buffer_size = text.size()};
  server->context_ = mg_start2(&init, &error);
  if (server->context_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("ops_listen = \"", listen, "\": cannot be bound: ", text.data()));
  }
  mg_server_port bound = {};
  if (mg_get_server_ports(server->context_, 1, &bound) == 1) server->port_ = bound.port;
  return server;
}

HttpServer::~HttpServer() {
  shared_->End();
  if (context_ == nullptr) return;
  // mg_stop waits for clients that are silent, and two seconds for its own thread.
  std::thread([shared = shared_, context = context_] { mg_stop(context); }).detach();
}

int HttpServer::Shared::OnRequest(mg_connection* connection) {
  auto* const shared = static_cast<Shared*>(mg_get_user_data(mg_get_context(connection)));
  // Else civetweb would read the body of the request, for as long as its client sends it.
  mg_disable_connection_keep_alive(connection);
  const std::string_view method = mg_get_request_info(connection)->request_method;
  const bool reads = method == "GET" || method == "HEAD";
  const HttpReply reply =
      reads ? shared->Answer(RequestOf(connection))
            : HttpReply{.status = 405, .body = "this port is read-only: GET and HEAD\n"};
  const SteadyTime deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kHttpReplyMs);
  if (Write(connection, HeaderOf(reply), deadline) && method != "HEAD") {
    Write(connection, reply.body, deadline);
  }
  return reply.status;
}

int HttpServer::Shared::OnMessage(const mg_connection* connection, const char* message) {
  const mg_context* const context = connection != nullptr ? mg_get_context(connection) : nullptr;
  auto* const shared =
      context != nullptr ? static_cast<Shared*>(mg_get_user_data(context)) : nullptr;
  if (shared == nullptr) return 1;
  const MutexLock lock(shared->mutex);
  // Clients can cause these messages, so they have the lowest level.
  if (!shared->ended) shared->log->Write(LogLevel::kDebug, "http", {{"error", message}});
  return 1;
}

}  // namespace nearfield::server
