// Tests of the HTTP server of the operations port: what it answers, and what no client can hold.
#include "server/ops_http/http_server.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/base/mutex.h"
#include "tests/server/http_client.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kDrip{20};
// More than the buffers of a connection hold.
constexpr int64_t kLargeBytes = 32 << 20;
// More connections than the server takes at a time.
constexpr int kManyConnections = 3 * kHttpConnectionsMax;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() : log_(LogFormat::kJson, LogLevel::kWarning, [](const std::string&) {}) {
    auto server = HttpServer::Start(OptionsFor("127.0.0.1:0"));
    EXPECT_OK(server.status());
    server_ = *std::move(server);
  }

  HttpServer::Options OptionsFor(const std::string& listen) {
    return {.listen = listen,
            .answer = [this](const HttpRequest& request) { return Answer(request); },
            .is_probe = [](const std::string& path) { return path == "/probe"; },
            .log = &log_};
  }

  HttpReply Answer(const HttpRequest& request) {
    ++requests_;
    if (request.path == "/wait") answers_.WaitForNotification();
    if (request.path == "/large")
      return {.body = std::string(static_cast<size_t>(kLargeBytes), 'x')};
    if (request.path == "/medium") return {.body = std::string(1 << 20, 'x')};
    return {.body = request.path + " of " + request.browser.host};
  }
  // Sends one byte after the other until the server closes the connection. Returns the time it
  // took.
  static Steady::duration Drip(HttpClient& client) {
    const auto begin = Steady::now();
    while (!client.AwaitServer(kDrip) && client.Write("x")) {
    }
    return Steady::now() - begin;
  }

  Log log_;
  std::atomic<int> requests_{0};
  absl::Notification answers_;  // "/wait" is answered after it
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersGetWithTheWholeBodyAndHeadWithNone) {
  const HttpAnswer answer = HttpGet(server_->port(), "/a%20b?c=%20");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "/a b of 127.0.0.1");
  EXPECT_THAT(answer.header,
              HasSubstr("\r\nContent-Length: " + std::to_string(answer.body.size())));
  EXPECT_EQ(HttpGet(server_->port(), "/medium").body.size(), size_t{1} << 20);
  HttpClient head(server_->port());
  head.Write("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
  const HttpAnswer of_head = head.Read();
  EXPECT_THAT(of_head.header, HasSubstr("\r\nContent-Length: 7"));
  EXPECT_EQ(of_head.body, "");
}

TEST_F(HttpServerTest, IsReadOnly) {
  for (const std::string method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    HttpClient client(server_->port());
    client.Write(method + " /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    EXPECT_EQ(client.Read().status, 405) << method;
  }
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerTest, AHeaderAboveTheLimitIsRefused) {
  HttpClient client(server_->port());
  const std::string long_header(2 * kHttpHeaderBytesMax, 'x');
  client.Write("GET /a HTTP/1.1\r\nHost: h\r\nLong: " + long_header + "\r\n\r\n");
  EXPECT_NE(client.Read().status, 200);
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerTest, AnAddressInUseIsAnError) {
  const std::string listen = "127.0.0.1:" + std::to_string(server_->port());
  const auto second = HttpServer::Start(OptionsFor(listen));
  EXPECT_THAT(second.status(), FailsWith(kInvalidArgument, "ops_listen", listen));
}

// Regression: --ops-listen [::1]:9464 could not be bound.
TEST_F(HttpServerTest, AnIpv6AddressIsBound) {
  const auto server = HttpServer::Start(OptionsFor("[::1]:0"));
  if (!server.ok()) GTEST_SKIP() << "no IPv6 on this machine: " << server.status();
  HttpClient client = HttpClient::ToIpv6((*server)->port());
  client.Write("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.Read().body, "/a of h");
}

TEST_F(HttpServerTest, ATargetThatIsNoPathIsRefused) {
  for (const std::string target : {"a", "*", "http://h/a", "/a%0ab", "/a%00", "/a%2", "/%zz"}) {
    HttpClient client(server_->port());
    client.Write("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(client.Read().status, 400) << target;
  }
  EXPECT_EQ(requests_, 0);
}

TEST_F(HttpServerTest, WhatIsNotHttpIsRefused) {
  HttpClient client(server_->port());
  client.Write("\x16\x03\x01 a TLS handshake, for example\r\n\r\n");
  EXPECT_EQ(client.Read().status, 400);
  EXPECT_EQ(requests_, 0);
}

// A slow header is waited for until kHttpRequestMs, however many bytes it sends.
TEST_F(HttpServerTest, AHeaderMustArriveInTime) {
  HttpClient client(server_->port());
  client.Write("GET /a HTTP/1.1\r\nHost: ");
  EXPECT_LT(Drip(client), 5 * milliseconds(kHttpRequestMs));
  EXPECT_EQ(requests_, 0);
}

// The body of a request is never waited for.
TEST_F(HttpServerTest, ASlowBodyHoldsNothing) {
  HttpClient client(server_->port());
  client.Write("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
  EXPECT_EQ(client.Read().status, 405);
}

// Regression: thirty silent sockets delayed a probe by 2.9 s.
TEST_F(HttpServerTest, SilentConnectionsDoNotDelayAProbe) {
  std::vector<HttpClient> silent;
  for (int i = 0; i < kHttpConnectionsMax / 2; ++i) silent.emplace_back(server_->port());
  const auto begin = Steady::now();
  EXPECT_EQ(HttpGet(server_->port(), "/probe").status, 200);
  EXPECT_LT(Steady::now() - begin, milliseconds(kHttpRequestMs));
}

TEST_F(HttpServerTest, MoreSilentConnectionsThanPlacesDoNotHoldItForever) {
  std::vector<HttpClient> silent;
  for (int i = 0; i < kManyConnections; ++i) silent.emplace_back(server_->port());
  EXPECT_EQ(HttpGet(server_->port(), "/a").status, 200);
}

TEST_F(HttpServerTest, ASilentConnectionIsClosed) {
  HttpClient client(server_->port());
  const auto begin = Steady::now();
  EXPECT_EQ(client.Read().status, 0);
  EXPECT_GE(Steady::now() - begin, milliseconds(kHttpSilentMs) / 2);
  EXPECT_EQ(requests_, 0);
}

// Regression: requests that wait for the core took the threads of the probes.
TEST_F(HttpServerTest, ProbesHaveThreadsOfTheirOwn) {
  std::vector<HttpClient> waiting;
  for (int i = 0; i < 2 * kHttpThreads; ++i) {
    waiting.emplace_back(server_->port()).Write("GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  EXPECT_TRUE(Eventually([&] { return requests_ >= kHttpThreads; }));
  EXPECT_EQ(HttpGet(server_->port(), "/probe").status, 200);
  answers_.Notify();
  for (HttpClient& client : waiting) EXPECT_EQ(client.Read().status, 200);
}

// Clients that take a reply a little at a time lose it after kHttpReplyMs.
TEST_F(HttpServerTest, SlowReadersDoNotHoldItForever) {
  Mutex mutex;
  CondVar changed;
  bool ending = false;  // guarded by mutex
  std::atomic<int64_t> bytes_read{0};
  const auto read_slowly = [&] {
    HttpClient client(server_->port(), /*receive_bytes=*/4096);
    client.Write("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    for (std::string part = client.ReadSome(1024); !part.empty(); part = client.ReadSome(1024)) {
      bytes_read += static_cast<int64_t>(part.size());
      MutexLock lock(mutex);
      const auto next = Steady::now() + kDrip;
      while (!ending && changed.WaitUntil(lock, next)) {
      }
      if (ending) return;
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < kHttpThreads; ++i) readers.emplace_back(read_slowly);
  EXPECT_TRUE(Eventually([&] { return requests_ >= kHttpThreads; }));
  EXPECT_EQ(HttpGet(server_->port(), "/a").status, 200);
  EXPECT_LT(bytes_read, kHttpThreads * kLargeBytes) << "no reader was slow";
  {
    const MutexLock lock(mutex);
    ending = true;
  }
  changed.NotifyAll();
  for (std::thread& reader : readers) reader.join();
}

// Regression: the end of a server waited for its silent clients, fourteen seconds for sixty.
TEST_F(HttpServerTest, ItsEndDoesNotWaitForClients) {
  std::vector<HttpClient> silent;
  for (int i = 0; i < kHttpThreads; ++i) {
    silent.emplace_back(server_->port()).Write("GET /a HTTP/1.1\r\nHost: ");
  }
  HttpGet(server_->port(), "/a");
  const auto begin = Steady::now();
  server_ = nullptr;
  EXPECT_LT(Steady::now() - begin, milliseconds(kHttpRequestMs));
}

}  // namespace
}  // namespace nearfield::server
