// Tests of replies that are lines of JSON.
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nearfield/engine/engine.h"
#include "tests/server/http/http_fixture.h"

namespace nearfield::server {
namespace {

class HttpLinesTest : public HttpFixture {
 protected:
  // Serves `rows` rows with payloads of 1 KiB from a real engine.
  void ServeReal(uint64_t rows) {
    Set(settings_.backend, "cpu");
    Set(settings_.memory_bytes, "64MiB");
    Set(settings_.host_memory_bytes, "256MiB");
    Set(settings_.threads, "1");
    make_engine_ = &Engine::Create;
    Serve();
    ASSERT_OK(CreateCollection("c"));
    std::vector<uint64_t> ids;
    for (uint64_t id = 1; id <= rows; ++id) ids.push_back(id);
    ASSERT_OK(UploadRows("c", ids, std::string(1024, 'p')));
  }
};

TEST_F(HttpLinesTest, AScanIsALineForEachReply) {
  ServeReal(3000);
  const ApiAnswer answer = Post("/v1/collections/c/scan", R"({"with_vectors": false})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(answer.Header("Content-Type"), "application/x-ndjson");
  EXPECT_EQ(answer.Header("Transfer-Encoding"), "chunked");
  const std::vector<nlohmann::json> lines = answer.Lines();
  EXPECT_GT(lines.size(), 1u);
  uint64_t next = 1;
  for (const nlohmann::json& line : lines) {
    for (const nlohmann::json& id : line["ids"]["numbers"]) EXPECT_EQ(id, std::to_string(next++));
  }
  EXPECT_EQ(next, 3001u);
}

TEST_F(HttpLinesTest, SearchAllIsALineForEachPage) {
  ServeReal(300);
  const ApiAnswer answer = Post(
      "/v1/collections/c/search_all",
      R"({"search": {"queries": [{"vector": {"values": [1, 0]}}], "k": 100}, "results_max": "250"})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::vector<size_t> sizes;
  for (const nlohmann::json& line : answer.Lines()) {
    sizes.push_back(line["results"][0]["scores"].size());
  }
  EXPECT_THAT(sizes, ElementsAre(100, 100, 50));
}

TEST_F(HttpLinesTest, AnErrorBeforeTheFirstLineHasItsHttpStatus) {
  ServeReal(1);
  ExpectError(Post("/v1/collections/d/scan", "{}"), 404, kNotFound, "d");
  ExpectError(Post("/v1/collections/c/scan", R"({"rows_max": "0"})"), 400, kInvalidArgument,
              "rows_max");
}

// A client that ignores the last line must not take the others for all rows.
TEST_F(HttpLinesTest, AnErrorAfterTheFirstLineCutsTheReply) {
  ServeReal(50000);  // more than the buffers of the connection take
  Set(settings_.drain_ms, "0");
  ApiClient client(port(), /*receive_bytes=*/4096);
  client.Write("POST /v1/collections/c/scan HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  client.AwaitReply();
  std::thread drain([&] { Drain(); });
  const ApiAnswer answer = client.Read();
  drain.join();
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.is_whole);
  const std::vector<nlohmann::json> lines = answer.Lines();
  ASSERT_GT(lines.size(), 1u);
  EXPECT_EQ(lines.back()["error"]["code"], static_cast<int>(kUnavailable)) << lines.back();
}

TEST_F(HttpLinesTest, ASlowReaderIsCancelled) {
  Set(settings_.reply_unread_ms, "50");
  ServeReal(50000);
  HttpClient client(port(), /*receive_bytes=*/4096);
  client.Write("POST /v1/collections/c/scan HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_TRUE(Eventually([&] {
    return server_->state().call_counter().counts().count({"Scan", "CANCELLED"}) > 0;
  }));
  EXPECT_TRUE(Eventually([&] { return server_->state().ledger().replies.bytes() == 0; }));
}

constexpr char kStream[] = "/v1/collections/c/search_stream";

std::string SearchLine(int number) {
  return absl::StrCat(R"({"queries": [{"vector": {"values": [)", number % 7 - 3,
                      R"(, 1]}}], "k": )", number % 5 + 1, "}\n");
}

TEST_F(HttpLinesTest, AStreamAnswersItsSearchesInOrder) {
  ServeReal(300);
  std::string body;
  for (int number = 0; number < 40; ++number) body += SearchLine(number);
  const ApiAnswer answer = Post(kStream, body, {{"Content-Type", "application/x-ndjson"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(answer.is_whole);
  const std::vector<nlohmann::json> lines = answer.Lines();
  ASSERT_EQ(lines.size(), 40u);
  for (int number = 0; number < 40; ++number) {
    const ApiAnswer one = Post("/v1/collections/c/search", SearchLine(number));
    ASSERT_EQ(one.status, 200) << one.body;
    EXPECT_EQ(lines[static_cast<size_t>(number)]["results"], one.Lines()[0]["results"]) << number;
  }
  const ApiAnswer none = Post(kStream, "");
  EXPECT_EQ(none.status, 200);
  EXPECT_EQ(none.body, "");
}

std::string Chunk(const std::string& text) {
  return absl::StrCat(absl::Hex(text.size()), "\r\n", text, "\r\n");
}

TEST_F(HttpLinesTest, AStreamAnswersBeforeTheBodyIsOver) {
  ServeReal(3);
  ApiClient client(port());
  client.Write(absl::StrCat("POST ", kStream, " HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                            "Content-Type: application/x-ndjson\r\n",
                            "Transfer-Encoding: chunked\r\n\r\n", Chunk(SearchLine(1))));
  client.AwaitReply();
  client.Write(absl::StrCat(Chunk(SearchLine(2)), Chunk("")));
  const ApiAnswer answer = client.Read();
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(answer.Lines().size(), 2u) << answer.body;
}

TEST_F(HttpLinesTest, ASearchThatFailsEndsItsStream) {
  ServeReal(3);
  const ApiAnswer answer = Post(kStream, SearchLine(1) + "{\"k\": }\n" + SearchLine(2));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.is_whole);
  const std::vector<nlohmann::json> lines = answer.Lines();
  ASSERT_EQ(lines.size(), 2u) << answer.body;
  EXPECT_EQ(lines[1]["error"]["code"], static_cast<int>(kInvalidArgument)) << lines[1];
  ExpectError(Post(kStream, "{\"k\": }\n"), 400, kInvalidArgument, "request 1 of the stream");
  ExpectError(Post(kStream, R"({"collection": "d"})"), 400, kInvalidArgument, "as in the path");
}

TEST_F(HttpLinesTest, ASilentStreamIsCancelled) {
  Set(settings_.connection_idle_ms, "100");
  ServeReal(3);
  ApiClient client(port());
  client.Write(absl::StrCat("POST ", kStream, " HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                            "Content-Type: application/x-ndjson\r\n",
                            "Transfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(client.Read().status, 499);
  EXPECT_EQ(server_->state().call_counter().counts().count({"SearchStream", "CANCELLED"}), 1u);
}

TEST_F(HttpLinesTest, LinesNeedHttp11) {
  ServeReal(1);
  HttpClient client(port());
  client.Write("POST /v1/collections/c/scan HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(client.Read().status, 505);
  HttpClient count(port());
  count.Write("POST /v1/collections/c/count HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_EQ(count.Read().status, 200);
}

}  // namespace
}  // namespace nearfield::server
