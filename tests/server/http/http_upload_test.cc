// Tests of uploads as lines of JSON.
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/server/http/http_fixture.h"

namespace nearfield::server {
namespace {

constexpr char kPath[] = "/v1/collections/c/upload";

class HttpUploadTest : public HttpFixture {
 protected:
  static std::string BeginLine(int rows) {
    return absl::StrCat(R"({"begin": {"rows_max": )", rows, R"(, "payload_bytes_max": 0}})", "\n");
  }
  // Rows (id, 1), as those of UploadRows.
  static std::string BlockLine(uint64_t id) {
    return absl::StrCat(R"({"block": {"ids": {"numbers": [)", id,
                        R"(]}, "vectors": {"dtype": "DATA_TYPE_FLOAT32", "data": ")",
                        absl::Base64Escape(Bytes({static_cast<float>(id), 1})), "\"}}}\n");
  }
  static std::string CommitLine() { return "{\"commit\": {}}\n"; }
  ApiAnswer Upload(const std::string& body) {
    return Post(kPath, body, {{"Content-Type", "application/x-ndjson"}});
  }
  void ExpectNothingHeld() {
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
    AwaitNoUpload();
  }
};

TEST_F(HttpUploadTest, TheRowsAreThoseOfGrpc) {
  ServeEmpty();
  const ApiAnswer answer =
      Upload(BeginLine(3) + BlockLine(7) + "\n \r\n" + BlockLine(8) + BlockLine(9) + CommitLine());
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.Json()["committed"]["rows_count"], "3");
  EXPECT_EQ(RowsCount(), 3u);
  ExpectNothingHeld();
}

TEST_F(HttpUploadTest, ALastLineNeedsNoEnd) {
  ServeEmpty();
  EXPECT_EQ(Upload(BeginLine(1) + BlockLine(7) + "{\"commit\": {}}").status, 200);
  EXPECT_EQ(RowsCount(), 1u);
}

// Every split of the body into chunks and packets has the same effect.
TEST_F(HttpUploadTest, ABodyInChunksIsTheSame) {
  ServeEmpty();
  const std::string body = BeginLine(2) + BlockLine(1) + BlockLine(2) + CommitLine();
  for (const size_t size : {size_t{1}, size_t{7}, size_t{64}, body.size()}) {
    ApiClient client(port());
    client.Write(
        "POST /v1/collections/c/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
        "application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < body.size(); at += size) {
      const std::string part = body.substr(at, size);
      client.Write(absl::StrCat(absl::Hex(part.size()), "\r\n", part, "\r\n"));
    }
    client.Write("0\r\n\r\n");
    const ApiAnswer answer = client.Read();
    ASSERT_EQ(answer.status, 200) << answer.body;
    const ApiAnswer deleted = Post("/v1/collections/c/delete", R"({"ids": {"numbers": [1, 2]}})");
    ASSERT_EQ(deleted.Json()["rows_deleted"], "2");
  }
}

TEST_F(HttpUploadTest, AnErrorHasItsStatusAndNothingIsCommitted) {
  ServeEmpty();
  ExpectError(Upload(BlockLine(1)), 400, kInvalidArgument, "begin");
  ExpectError(Upload(BeginLine(1) + BlockLine(1) + BlockLine(2) + CommitLine()), 400,
              kInvalidArgument, "rows_max");
  ExpectError(Upload(BeginLine(1) + "{\"block\": 1}\n"), 400, kInvalidArgument, "block");
  ExpectError(Upload(BeginLine(1) + BlockLine(1)), 400, kInvalidArgument, "before commit");
  ExpectError(Upload(R"({"begin": {"collection": "d"}})"), 400, kInvalidArgument, "as in the path");
  EXPECT_EQ(RowsCount(), 0u);
  ExpectNothingHeld();
}

TEST_F(HttpUploadTest, ALineAboveTheLimitIsRefused) {
  Set(settings_.request_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "1KiB");
  ServeEmpty();
  ExpectError(Upload(BeginLine(1) + std::string(200000, '{')), 429, kResourceExhausted,
              "line: more than 65536 bytes, the limit request_bytes_max");
  ExpectNothingHeld();
}

TEST_F(HttpUploadTest, AClientThatLeavesLeavesNothing) {
  ServeEmpty();
  ApiClient client(port());
  client.Write(
      "POST /v1/collections/c/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
      "application/x-ndjson\r\nContent-Length: 1000\r\n\r\n" +
      BeginLine(1) + BlockLine(1));
  EXPECT_TRUE(Eventually([&] { return script_->uploads_open > 0; }));
  client.Close();
  ExpectNothingHeld();
  EXPECT_EQ(RowsCount(), 0u);
}

TEST_F(HttpUploadTest, ASilentClientLosesItsPlace) {
  Set(settings_.upload_idle_ms, "50");
  ServeEmpty();
  ApiClient client(port());
  client.Write(
      "POST /v1/collections/c/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
      "application/x-ndjson\r\nContent-Length: 1000\r\n\r\n" +
      BeginLine(1));
  ExpectError(client.Read(), 504, kDeadlineExceeded, "upload");
  ExpectNothingHeld();
}

TEST_F(HttpUploadTest, ABodyThatWaitsForAContinueGetsIt) {
  ServeEmpty();
  HttpClient client(port());
  client.Write(
      "POST /v1/collections/c/count HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
      "application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
      "Connection: close\r\n\r\n");
  EXPECT_EQ(client.ReadSome(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Write("{}");
  EXPECT_EQ(client.Read().status, 200);
}

}  // namespace
}  // namespace nearfield::server
