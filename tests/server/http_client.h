// HttpClient: a TCP connection on loopback on which a test writes a request byte by byte.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace nearfield::server {

struct HttpAnswer {
  int status = 0;      // 0: the server closed the connection without a reply
  std::string header;  // with the status line
  std::string body;
};

class HttpClient {
 public:
  // Connects to 127.0.0.1. `receive_bytes`: size of the receive buffer; 0: the system's.
  explicit HttpClient(int port, int receive_bytes = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  // Connects to [::1].
  static HttpClient ToIpv6(int port) {
    HttpClient client;
    sockaddr_in6 to = {};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(static_cast<uint16_t>(port));
    to.sin6_addr = in6addr_loopback;
    EXPECT_EQ(connect(client.fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return client;
  }
  ~HttpClient() {
    if (fd_ >= 0) close(fd_);
  }
  HttpClient(HttpClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HttpClient& operator=(HttpClient&&) = delete;

  // Returns false if the server has closed the connection.
  bool Write(const std::string& text) {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Reads at most `bytes_max` bytes; empty at the end of the connection.
  std::string ReadSome(size_t bytes_max) {
    std::string text(bytes_max, '\0');
    const ssize_t count = recv(fd_, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
  }
  // Waits until the server sends or closes. Returns false if it does neither within `wait`.
  bool AwaitServer(std::chrono::milliseconds wait) {
    pollfd each = {.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&each, 1, static_cast<int>(wait.count())) > 0;
  }
  // Reads until the server closes the connection.
  HttpAnswer Read() {
    std::string text;
    for (std::string part = ReadSome(1 << 16); !part.empty(); part = ReadSome(1 << 16)) {
      text += part;
    }
    HttpAnswer answer;
    const size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) return answer;
    answer.header = text.substr(0, end);
    answer.body = text.substr(end + 4);
    answer.status = std::atoi(answer.header.substr(answer.header.find(' ') + 1).c_str());
    return answer;
  }

 private:
  HttpClient() : fd_(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  int fd_;
};

inline HttpAnswer HttpGet(int port, const std::string& path,
                          const std::string& headers = "Host: 127.0.0.1\r\n") {
  HttpClient client(port);
  client.Write("GET " + path + " HTTP/1.1\r\n" + headers + "\r\n");
  return client.Read();
}

// Returns all samples of /metrics: the name with its labels, and the value.
inline std::map<std::string, double> MetricsIn(const std::string& text) {
  std::map<std::string, double> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] == '#') continue;
    const size_t blank = line.rfind(' ');
    EXPECT_TRUE(found.emplace(line.substr(0, blank), std::stod(line.substr(blank))).second)
        << "twice: " << line;
  }
  return found;
}

// Returns the port of "127.0.0.1:PORT".
inline int PortOf(const std::string& address) {
  return std::atoi(address.substr(address.rfind(':') + 1).c_str());
}

}  // namespace nearfield::server
