#include "server/http/http_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/listener/listen_sockets.h"

namespace nearfield::server {
namespace {

// Threads that read, decode and write. One may run a short pass, so there are two.
constexpr unsigned kThreadsMin = 2;
constexpr unsigned kThreadsMax = 16;

Api::Options ApiOptions(const HttpPort::Options& options) {
  return {.base = options.base,
          .is_loopback = IsLoopback(options.base.settings->http_listen.value()),
          .scheme = options.certificates == nullptr ? "http" : "https"};
}

}  // namespace

HttpPort::HttpPort(const Options& options)
    : log_(options.log), api_(ApiOptions(options)), work_(io_.get_executor()) {
  connections_.settings = options.base.settings;
  connections_.io = &io_;
  connections_.handle = [this](const std::shared_ptr<Exchange>& exchange) {
    api_.Handle(exchange);
  };
  if (options.certificates != nullptr) tls_ = std::make_unique<TlsContexts>(options.certificates);
}

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Start(const Options& options) {
  auto port = std::unique_ptr<HttpPort>(new HttpPort(options));
  const Settings& settings = *options.base.settings;
  ABSL_ASSIGN_OR_RETURN(
      std::unique_ptr<ListenSockets> sockets,
      ListenSockets::Bind("http_listen", settings.http_listen.value(),
                          std::chrono::milliseconds(settings.keepalive_timeout_ms.value())));
  port->port_ = sockets->port();
  const unsigned threads =
      std::clamp(std::thread::hardware_concurrency() / 2, kThreadsMin, kThreadsMax);
  for (unsigned i = 0; i < threads; ++i) {
    port->threads_.emplace_back([io = &port->io_] { io->run(); });
  }
  AcceptorOptions acceptor;
  acceptor.connections_max = options.connections_max;
  acceptor.on_connection = [port = port.get()](int fd) { port->Accept(fd); };
  port->acceptor_ =
      std::make_unique<Acceptor>(std::move(sockets), std::move(acceptor), options.log);
  return port;
}

HttpPort::~HttpPort() {
  if (acceptor_ != nullptr) {
    Stop();
    acceptor_->Disconnect(std::chrono::milliseconds::zero());
  }
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
}

void HttpPort::Stop() {
  connections_.ends.store(true);
  acceptor_->Stop();
}

void HttpPort::Accept(int fd) {
  if (tls_ == nullptr) return BeginConnection(&connections_, fd, nullptr);
  const auto tls = tls_->Current();
  if (tls.ok()) return BeginConnection(&connections_, fd, *tls);
  log_->Write(LogLevel::kError, "http", {{"error", std::string(tls.status().message())}});
  close(fd);
}

}  // namespace nearfield::server
