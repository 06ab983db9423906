// Tests of the connections of the HTTP port: their number, their lifetime, and the bounds of what
// they hold.
#include <chrono>
#include <deque>
#include <string>

#include "tests/server/http/http_fixture.h"

namespace nearfield::server {
namespace {

constexpr char kGet[] = "GET /v1/state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

class HttpConnectionsTest : public HttpFixture {
 protected:
  void AwaitOpen(int64_t count) {
    EXPECT_TRUE(Eventually([&] { return server_->connections().open == count; }));
  }
};

TEST_F(HttpConnectionsTest, AConnectionServesManyCalls) {
  ServeRows();
  ApiClient client(port());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(client.Get("/v1/state").status, 200);
    ASSERT_EQ(client.Get("/v1/x").status, 404);
    ASSERT_EQ(client.Post("/v1/collections/c/search", kSearch).status, 200);
    ASSERT_EQ(client.Post("/v1/collections/c/search", "{").status, 400);
  }
}

TEST_F(HttpConnectionsTest, RequestsThatAreSentAtOnceAreAnsweredInOrder) {
  ServeRows();
  ApiClient client(port());
  client.Write(std::string(kGet) +
               "POST /v1/collections/c/count HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
               "application/json\r\nContent-Length: 2\r\n\r\n{}" +
               kGet);
  EXPECT_THAT(client.Read().body, HasSubstr("SERVING"));
  EXPECT_THAT(client.Read().body, HasSubstr("\"rows_count\":\"4\""));
  EXPECT_THAT(client.Read().body, HasSubstr("SERVING"));
}

TEST_F(HttpConnectionsTest, TheConnectionBeyondTheLimitIsRefused) {
  Set(settings_.http_connections_max, "1");
  Serve();
  ApiClient first(port());
  ASSERT_EQ(first.Get("/v1/state").status, 200);
  ApiClient second(port());
  EXPECT_EQ(second.Get("/v1/state").status, 0);
  EXPECT_EQ(first.Get("/v1/state").status, 200);
}

TEST_F(HttpConnectionsTest, IdleAndOldConnectionsEnd) {
  Set(settings_.connection_idle_ms, "100");
  Serve();
  HttpClient idle(port());
  EXPECT_EQ(idle.Read().status, 0);
  Set(settings_.connection_age_ms, "100");
  ApiClient old(port());
  EXPECT_TRUE(Eventually([&] { return old.Get("/v1/state").Header("Connection") == "close"; }));
}

TEST_F(HttpConnectionsTest, ALargeHeadIsRefused) {
  Serve();
  HttpClient client(port());
  client.Write("GET /v1/state HTTP/1.1\r\nHost: 127.0.0.1\r\nx: " + std::string(20000, 'x') +
               "\r\n\r\n");
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 431);
  EXPECT_THAT(answer.body, HasSubstr("16384"));
  EXPECT_EQ(ApiClient(port()).Get("/v1/state").status, 200);
}

TEST_F(HttpConnectionsTest, WhatIsNotHttpIsRefused) {
  Serve();
  for (const char* const text :
       {"hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\r\n\r\n"}) {
    HttpClient client(port());
    client.Write(text);
    EXPECT_EQ(client.Read().status, 400) << text;
  }
}

// A body is read only after its bytes were reserved.
TEST_F(HttpConnectionsTest, BodiesThatDoNotFitAreRefusedWithAHint) {
  Set(settings_.requests_bytes_max, "128KiB");
  Set(settings_.request_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "1KiB");
  ServeRows();
  std::deque<ApiClient> slow;
  ApiAnswer refused;
  for (int i = 0; i < 8 && refused.status == 0; ++i) {
    ApiClient& client = slow.emplace_back(port());
    client.Write(
        "POST /v1/collections/c/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
        "application/json\r\nContent-Length: 60000\r\n\r\n{");
    const int64_t held = server_->state().ledger().requests.bytes();
    if (i == 0) {
      EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() >= 60000; }));
    } else {
      ApiAnswer other = Post("/v1/collections/c/search", std::string(60000, ' ') + kSearch);
      if (other.status == 429) refused = other;
    }
    EXPECT_LE(held, 128 * 1024);
  }
  ExpectError(refused, 429, kResourceExhausted, "requests_bytes_max");
  EXPECT_NE(refused.Header("Retry-After"), "");
  slow.clear();
  EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
}

TEST_F(HttpConnectionsTest, ASlowBodyEndsTheConnection) {
  Set(settings_.upload_idle_ms, "50");
  ServeRows();
  HttpClient client(port());
  client.Write(
      "POST /v1/collections/c/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
      "application/json\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(client.Read().status, 0);
  EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
}

TEST_F(HttpConnectionsTest, ADrainEndsTheConnections) {
  ServeRows();
  HttpClient idle(port());
  idle.Write(kGet);
  ASSERT_TRUE(idle.AwaitServer(std::chrono::seconds(60)));
  Drain();
  EXPECT_EQ(idle.Read().status, 200);
}

}  // namespace
}  // namespace nearfield::server
