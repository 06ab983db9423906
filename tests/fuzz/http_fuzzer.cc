// Sends arbitrary bytes to the HTTP server of the operations port. It must answer every whole
// request and close every connection; a handler must see only paths and queries without control
// characters, within the limit of a header.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "server/operations/http_server.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"

namespace nearfield::server {
namespace {

HttpReply Answer(const HttpRequest& request) {
  const size_t bytes = request.path.size() + request.query.size() + request.host.size();
  Require(!request.path.empty() && request.path.front() == '/');
  Require(bytes <= static_cast<size_t>(kHttpHeaderBytesMax));
  return {.body = "answer"};
}

sockaddr_in AddressOf(uint32_t host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(host);
  return address;
}

// Ends the program with the system's error if a call failed.
void RequireCall(bool succeeded, const char* call) {
  if (!succeeded) std::perror(call);
  Require(succeeded);
}

// Connects from another loopback address each time: closed connections keep their ports for a
// minute, and those of one address would be used up.
int Connect(int port) {
  static uint32_t connections = 0;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from = AddressOf(0x7f010001u + connections++ % 0xffff00u, 0);
  const sockaddr_in to = AddressOf(INADDR_LOOPBACK, port);
  RequireCall(fd >= 0, "socket");
  RequireCall(bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) == 0, "bind");
  RequireCall(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0, "connect");
  return fd;
}

// Returns what the server sends until it closes the connection.
std::string Exchange(int port, std::string_view request) {
  const int fd = Connect(port);
  static_cast<void>(send(fd, request.data(), request.size(), MSG_NOSIGNAL));
  shutdown(fd, SHUT_WR);
  std::string reply;
  std::array<char, 4096> part = {};
  for (ssize_t got = 0; (got = recv(fd, part.data(), part.size(), 0)) > 0;) {
    reply.append(part.data(), static_cast<size_t>(got));
  }
  close(fd);
  return reply;
}

void Run(std::string_view bytes) {
  static Log log(LogFormat::kJson, LogLevel::kError, [](const std::string&) {});
  static const auto server = HttpServer::Start("127.0.0.1:0", Answer, &log);
  Require(server.ok());
  constexpr std::string_view kValid =
      "GET /metrics?a=%20b HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n";
  fuzz::InputReader input(bytes);
  std::string request(kValid);
  if (input.Take(1) % 2 == 0) {
    input.Edit(&request);
  } else {
    request = input.TakeRest();
  }
  const std::string reply = Exchange((*server)->port(), request);
  // civetweb repeats the version that the client sent, whatever it is.
  Require(reply.empty() || reply.rfind("HTTP/", 0) == 0);
  // The server still answers. On a busy machine a thread may wait so long that a deadline passes.
  constexpr int kAttempts = 10;
  bool answers = false;
  for (int i = 0; i < kAttempts && !answers; ++i) {
    answers = Exchange((*server)->port(), kValid).rfind("HTTP/1.1 200", 0) == 0;
  }
  Require(answers);
}

}  // namespace
}  // namespace nearfield::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::server::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
