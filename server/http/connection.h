// A connection of the HTTP port: reads one request after the other and sends their replies, bounded
// in bytes and time.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "server/config/settings.h"
#include "server/http/exchange.h"

namespace nearfield::server {

// Bytes of the head of a request, as of the metadata of a call of gRPC.
inline constexpr size_t kHttpHeadBytesMax = size_t{16} << 10;
inline constexpr int64_t kHttpHeadMs = 10000;   // for a head to arrive, once it has begun
inline constexpr int64_t kHttpLingerMs = 2000;  // for a client to take the last reply

// The parts of the port that its connections use; they outlive the connections.
struct ConnectionBase {
  const Settings* settings = nullptr;
  boost::asio::io_context* io = nullptr;
  std::atomic<bool> ends{false};  // connections end after their current reply
  // Answers a request. Called on the strand of its connection.
  std::function<void(const std::shared_ptr<Exchange>& exchange)> handle;
};

// Begins a connection over a connected socket, which it owns. `tls`: null: none.
void BeginConnection(const ConnectionBase* base, int fd,
                     const std::shared_ptr<boost::asio::ssl::context>& tls);

}  // namespace nearfield::server
