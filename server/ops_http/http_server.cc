#include "server/ops_http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/http/target.h"
#include "server/listener/listen_sockets.h"

namespace nearfield::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using std::chrono::milliseconds;

constexpr size_t kReadBytes = 2048;
// Wait after a failed accept, which commonly means that no descriptor is free.
constexpr milliseconds kAcceptRetry{100};

// Replies may contain text of clients, so no browser may take one for a program, embed it, or run a
// script or load a style that this server did not send. Trusted types: no text becomes HTML.
constexpr std::pair<const char*, const char*> kSecurityHeaders[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"}};

std::string ContentSecurityPolicy(const std::string& calls_to) {
  return absl::StrCat(
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ", calls_to,
      "; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
      "require-trusted-types-for 'script'; trusted-types 'none'");
}

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

// Returns nullopt if the target is not a path, or a control character is in it.
std::optional<HttpRequest> RequestOf(const http::request<http::empty_body>& message) {
  const std::string_view target = View(message.target());
  const size_t end = std::min(target.find('?'), target.size());
  const std::optional<std::string> path = PercentDecoded(target.substr(0, end), false);
  if (!path.has_value() || path->empty() || path->front() != '/' ||
      std::any_of(path->begin(), path->end(),
                  [](unsigned char c) { return absl::ascii_iscntrl(c); })) {
    return std::nullopt;
  }
  const auto header = [&message](const char* name) { return std::string(View(message[name])); };
  return HttpRequest{.path = *path,
                     .browser = {.host = header("Host"),
                                 .origin = header("Origin"),
                                 .fetch_site = header("Sec-Fetch-Site")}};
}

// Returns true if the client sent a header that is not HTTP; false if it left or was too slow.
bool IsMalformed(beast::error_code error) {
  const beast::error_code end = http::error::end_of_stream;
  return error.category() == end.category() && error != end &&
         error != http::error::partial_message;
}

// Returns the protocol of a listening socket, IPv4 or IPv6.
tcp ProtocolOf(int fd) {
  int domain = AF_INET;
  socklen_t size = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_INET6 ? tcp::v6() : tcp::v4();
}

// The parts of a server that a connection uses; they outlive it.
struct ConnectionBase {
  const HttpServer::Options* options = nullptr;
  asio::thread_pool* probe_threads = nullptr;
  asio::thread_pool* request_threads = nullptr;
  std::function<void()> on_end;  // called once, on the thread of the loop
};

// One connection and its request. All steps except the answer run on the thread of the loop.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ConnectionBase base)
      : stream_(std::move(socket)), base_(std::move(base)) {
    parser_.header_limit(kHttpHeaderBytesMax);
    parser_.body_limit(UINT64_MAX);  // a body is never read
  }

  void Start() {
    stream_.expires_after(milliseconds(kHttpSilentMs));
    stream_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = shared_from_this()](beast::error_code error, size_t bytes) {
                              if (error) return self->End();
                              self->buffer_.commit(bytes);
                              self->ReadHeader();
                            });
  }

 private:
  void ReadHeader() {
    stream_.expires_after(milliseconds(kHttpRequestMs));
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](beast::error_code error, size_t /*bytes*/) {
                              self->OnHeader(error);
                            });
  }

  void OnHeader(beast::error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return Reply({.status = 431,
                    .body = absl::StrCat("the header has more than ", kHttpHeaderBytesMax,
                                         " bytes, the limit\n")});
    }
    if (IsMalformed(error)) return Reply({.status = 400, .body = error.message() + "\n"});
    if (error) return End();
    const http::verb method = parser_.get().method();
    is_head_ = method == http::verb::head;
    if (method != http::verb::get && !is_head_) {
      return Reply({.status = 405, .body = "this port is read-only: GET and HEAD\n"});
    }
    std::optional<HttpRequest> request = RequestOf(parser_.get());
    if (!request.has_value()) return Reply({.status = 400, .body = "the target is no path\n"});
    Answer(*std::move(request));
  }

  void Answer(HttpRequest request) {
    stream_.expires_never();
    asio::thread_pool* const threads =
        base_.options->is_probe(request.path) ? base_.probe_threads : base_.request_threads;
    asio::post(*threads, [self = shared_from_this(), request = std::move(request)]() mutable {
      HttpReply reply = self->base_.options->answer(request);
      const auto executor = self->stream_.get_executor();
      asio::post(executor, [self = std::move(self), reply = std::move(reply)]() mutable {
        self->Reply(std::move(reply));
      });
    });
  }

  void Reply(HttpReply reply) {
    response_.result(static_cast<unsigned>(reply.status));
    response_.set(http::field::content_type, reply.content_type);
    for (const auto& [name, value] : kSecurityHeaders) response_.set(name, value);
    response_.set("Content-Security-Policy", ContentSecurityPolicy(base_.options->calls_to));
    response_.body() = std::move(reply.body);
    response_.keep_alive(false);
    response_.prepare_payload();
    stream_.expires_after(milliseconds(kHttpReplyMs));
    const auto on_written = [self = shared_from_this()](beast::error_code error, size_t /*bytes*/) {
      if (error) return self->End();
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, error);
      self->stream_.expires_after(milliseconds(kHttpSilentMs));
      self->Linger();
    };
    if (is_head_) {
      http::async_write_header(stream_, serializer_, on_written);
    } else {
      http::async_write(stream_, serializer_, on_written);
    }
  }

  // Reads and drops what the client still sends, for at most kHttpSilentMs: a socket that is closed
  // with unread bytes resets the connection, and the client may lose the reply.
  void Linger() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = shared_from_this()](beast::error_code error, size_t /*bytes*/) {
                              if (error) return self->End();
                              self->Linger();
                            });
  }

  void End() {
    stream_.close();
    base_.on_end();
  }

  beast::tcp_stream stream_;
  const ConnectionBase base_;
  beast::flat_buffer buffer_{kHttpHeaderBytesMax + kReadBytes};
  http::request_parser<http::empty_body> parser_;
  bool is_head_ = false;
  http::response<http::string_body> response_;
  http::response_serializer<http::string_body> serializer_{response_};
};

}  // namespace

// The sockets and the threads of a server. Everything except the answers runs on one thread.
struct HttpServer::Loop {
  explicit Loop(Options options_in) : options(std::move(options_in)) {}

  absl::Status Listen() {
    ABSL_ASSIGN_OR_RETURN(
        sockets, ListenSockets::Bind("ops_listen", options.listen, milliseconds(kHttpReplyMs)));
    for (const int fd : sockets->descriptors()) {
      // The acceptor closes its descriptor, and so do the sockets.
      acceptors.emplace_back(io, ProtocolOf(fd), dup(fd));
    }
    return absl::OkStatus();
  }
  void Run() {
    Accept();
    thread = std::thread([this] { io.run(); });
  }
  void Stop() {
    io.stop();
    thread.join();
    probe_threads.stop();
    request_threads.stop();
    probe_threads.join();
    request_threads.join();
  }

  // Accepts one connection on each idle socket, as long as there are places.
  void Accept() {
    for (size_t i = 0; i < acceptors.size(); ++i) {
      if (accepting.count(i) > 0 || connections == kHttpConnectionsMax) continue;
      accepting.insert(i);
      ++connections;
      acceptors[i].async_accept([this, i](beast::error_code error, tcp::socket socket) {
        accepting.erase(i);
        OnAccepted(error, std::move(socket));
      });
    }
  }
  void OnAccepted(beast::error_code error, tcp::socket socket) {
    if (error) {
      --connections;
      options.log->Write(LogLevel::kDebug, "http", {{"error", error.message()}});
      retry.expires_after(kAcceptRetry);
      return retry.async_wait([this](beast::error_code cancelled) {
        if (!cancelled) Accept();
      });
    }
    ConnectionBase base = {.options = &options,
                           .probe_threads = &probe_threads,
                           .request_threads = &request_threads,
                           .on_end = [this] {
                             --connections;
                             Accept();
                           }};
    std::make_shared<Connection>(std::move(socket), std::move(base))->Start();
    Accept();
  }

  const Options options;
  std::unique_ptr<ListenSockets> sockets;
  asio::io_context io{1};
  std::vector<tcp::acceptor> acceptors;
  std::set<size_t> accepting;  // indices of the acceptors that wait for a connection
  int connections = 0;         // open, or waited for
  asio::steady_timer retry{io};
  std::thread thread;
  // Last: what waits in them uses the others.
  asio::thread_pool probe_threads{kHttpProbeThreads};
  asio::thread_pool request_threads{kHttpThreads};
};

HttpServer::HttpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Options options) {
  auto loop = std::make_unique<Loop>(std::move(options));
  ABSL_RETURN_IF_ERROR(loop->Listen());
  loop->Run();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(loop)));
}

HttpServer::~HttpServer() { loop_->Stop(); }

int HttpServer::port() const { return loop_->sockets->port(); }

}  // namespace nearfield::server
