// HttpPort: the port of the calls as HTTP and JSON, on `http_listen`.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/api.h"
#include "server/http/connection.h"
#include "server/http/tls.h"
#include "server/listener/acceptor.h"
#include "server/security/certificates.h"
#include "server/telemetry/log.h"

namespace nearfield::server {

class HttpPort {
 public:
  struct Options {
    ApiBase base;
    std::shared_ptr<const Certificates> certificates;  // null: no TLS
    int64_t connections_max = 1;
    Log* log = nullptr;  // outlives the port
  };
  // Binds the address http_listen and answers. Errors: InvalidArgument (the address cannot be
  // bound).
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(const Options& options);
  // Requires: no call is in flight, or none will end. Waits for the threads.
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }
  // Also answers the page of the operations port, whose port this is.
  void AllowPage(int page_port) { api_.AllowPage(page_port); }
  AcceptCounts connections() const { return acceptor_->counts(); }

  // Accepts no further connection. Those that are open end after their current call.
  void Stop();
  // Ends the connections, as Acceptor::Disconnect.
  void Disconnect(std::chrono::milliseconds wait) { acceptor_->Disconnect(wait); }

 private:
  explicit HttpPort(const Options& options);
  void Accept(int fd);

  Log* const log_;
  Api api_;
  std::unique_ptr<TlsContexts> tls_;  // null: no TLS
  boost::asio::io_context io_;
  ConnectionBase connections_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
  std::unique_ptr<Acceptor> acceptor_;  // last: its thread uses the others
  int port_ = 0;
};

}  // namespace nearfield::server
