// Sends arbitrary bytes to the HTTP server of the operations port. It must answer every whole
// request and close every connection; a handler must see only paths and queries without control
// characters, within the limit of a header.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "server/ops_http/http_server.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"

namespace nearfield::server {
namespace {

HttpReply Answer(const HttpRequest& request) {
  const size_t bytes = request.path.size() + request.browser.host.size();
  Require(!request.path.empty() && request.path.front() == '/');
  Require(std::none_of(request.path.begin(), request.path.end(),
                       [](unsigned char c) { return std::iscntrl(c) != 0; }));
  Require(bytes <= static_cast<size_t>(kHttpHeaderBytesMax));
  return {.body = "answer"};
}

// Ends the program with the system's error if a call failed.
void RequireCall(bool succeeded, const char* call) {
  if (!succeeded) std::perror(call);
  Require(succeeded);
}

// Returns true when the connection is there. A signal, for example libFuzzer's timer, interrupts
// the wait and not the connection.
bool AwaitConnection(int fd) {
  pollfd wait = {.fd = fd, .events = POLLOUT, .revents = 0};
  while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
  }
  socklen_t size = sizeof(errno);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &size) == 0 && errno == 0;
}

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RequireCall(fd >= 0, "socket");
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool at_once = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  RequireCall(at_once || (errno == EINTR && AwaitConnection(fd)), "connect");
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
  static const auto server =
      HttpServer::Start({.listen = "127.0.0.1:0",
                         .answer = Answer,
                         .is_probe = [](const std::string& path) { return path == "/livez"; },
                         .log = &log});
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
  Require(reply.empty() || reply.rfind("HTTP/1.1 ", 0) == 0);
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
