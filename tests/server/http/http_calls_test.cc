// Tests of unary calls over HTTP: replies, errors, and what is refused before there is a call.
#include <chrono>
#include <string>
#include <thread>

#include "tests/server/http/http_fixture.h"

namespace nearfield::server {
namespace {

constexpr char kSearchPath[] = "/v1/collections/c/search";

class HttpCallsTest : public HttpFixture {};

TEST_F(HttpCallsTest, ASearchIsAnsweredInJson) {
  ServeRows();
  const ApiAnswer answer = Post(kSearchPath, kSearch, {{"X-Request-Id", "mine"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.Header("Content-Type"), "application/json");
  EXPECT_EQ(answer.Header("nearfield-request-id"), "mine");
  EXPECT_EQ(answer.Header("Cache-Control"), "no-store");
  EXPECT_EQ(answer.Header("X-Content-Type-Options"), "nosniff");
  const nlohmann::json found = answer.Json();
  EXPECT_EQ(found["results"][0]["ids"]["numbers"], (nlohmann::json{"4", "3"}));
  EXPECT_EQ(found["results"][0]["scores"], (nlohmann::json{4, 3}));
  EXPECT_EQ(found["epoch"], "1");
}

TEST_F(HttpCallsTest, ACollectionLivesFromItsCreationToItsDrop) {
  Serve();
  ApiClient client(port());
  const ApiAnswer created = client.Post("/v1/collections/new",
                                        R"({"dim": 2, "metric": "METRIC_DOT",
      "dtype": "DATA_TYPE_FLOAT32", "id_type": "ID_TYPE_UINT64"})");
  ASSERT_EQ(created.status, 200) << created.body;
  EXPECT_EQ(created.Json()["collection"]["name"], "new");
  EXPECT_EQ(client.Get("/v1/collections").Json()["collections"].size(), 1u);
  EXPECT_EQ(client.Call("PUT", "/v1/aliases/a", R"({"collection": "new"})").status, 200);
  EXPECT_EQ(client.Get("/v1/collections/a").Json()["collection"]["name"], "new");
  EXPECT_EQ(client.Call("DELETE", "/v1/aliases/a").Json()["collection"], "new");
  EXPECT_EQ(client.Call("DELETE", "/v1/collections/new?only_if_empty=true").status, 200);
  ExpectError(client.Get("/v1/collections/new"), 404, kNotFound, "new");
  EXPECT_EQ(client.Get("/v1/limits").Json()["k_max"], settings_.k_max.value());
}

TEST_F(HttpCallsTest, AnErrorHasTheDetailsOfGrpc) {
  ServeRows();
  const ApiAnswer answer = Post(kSearchPath, R"({"queries": [{"row_id": {"number": 1}}], "k": 0})");
  ExpectError(answer, 400, kInvalidArgument, "k = 0");
  const nlohmann::json details = answer.Json()["details"];
  ASSERT_EQ(details.size(), 2u) << answer.body;
  EXPECT_EQ(details[0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
  EXPECT_EQ(details[0]["metadata"]["field"], "k");
  EXPECT_EQ(details[1]["fieldViolations"][0]["field"], "k");
  EXPECT_FALSE(answer.Header("nearfield-request-id").empty());
}

// Regression: the log and the metrics had such a call as OK.
TEST_F(HttpCallsTest, AReplyWithoutMemoryIsCountedAndLoggedAsItsClientSeesIt) {
  ServeEmpty();
  const int64_t payload_bytes = 60 << 10;
  ASSERT_OK(UploadRows("c", {1}, std::string(payload_bytes, 'x')));
  ByteAccount& replies = server_->state().ledger().replies;
  {
    // The message fits, and its JSON does not.
    const auto hold = replies.Reserve(
        "other", (replies.bytes_max() - kReplyCopies * (payload_bytes + 1024)) / kReplyCopies);
    ASSERT_OK(hold);
    for (const char* const call : {"fetch", "scan"}) {
      const std::string body = call == std::string("fetch") ? R"({"ids": {"numbers": [1]}})" : "{}";
      ExpectError(Post(std::string("/v1/collections/c/") + call, body), 429, kResourceExhausted,
                  "replies_bytes_max");
    }
  }
  EXPECT_EQ(Post("/v1/collections/c/scan", "{}").status, 200);
  const CallCounts counts = server_->state().call_counter().counts();
  EXPECT_EQ(counts.count({"Fetch", "OK"}), 0u);
  EXPECT_EQ(counts.count({"Fetch", "RESOURCE_EXHAUSTED"}), 1u);
  EXPECT_EQ(counts.at({"Scan", "RESOURCE_EXHAUSTED"}).total_us.count(), 1);
  EXPECT_EQ(counts.at({"Scan", "OK"}).total_us.count(), 1);
  EXPECT_EQ(server_->state().call_counter().refusals().at("replies_bytes_max"), 2);
  Drain();
  std::vector<std::string> logged;
  for (const nlohmann::json& line : LogLinesOf("request")) {
    const std::string method = line["method"];
    if (method == "Fetch" || method == "Scan") logged.push_back(line["status"]);
  }
  EXPECT_THAT(logged, ElementsAre("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "OK"));
}

// Regression: the change was refused after it had been made.
TEST_F(HttpCallsTest, TheReplyOfAChangeNeedsNoMemoryOfReplies) {
  ServeRows();
  std::string ids = "1";
  std::string payloads = R"("")";
  for (int id = 1000; id < 4000; ++id) {  // there is none of them
    absl::StrAppend(&ids, ",", id);
    absl::StrAppend(&payloads, R"(,"")");
  }
  ByteAccount& replies = server_->state().ledger().replies;
  const auto hold = replies.Reserve("other", replies.bytes_max() / kReplyCopies);
  ASSERT_OK(hold);
  const ApiAnswer answer = Post("/v1/collections/c/update",
                                absl::StrCat(R"({"ids": {"numbers": [)", ids,
                                             R"(]}, "payloads": {"payloads": [)", payloads, "]}}"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.Json()["missing"]["numbers"].size(), 3000u);
}

TEST_F(HttpCallsTest, AnotherNameInTheBodyIsRefused) {
  ServeRows();
  EXPECT_EQ(Post("/v1/collections/c/count", R"({"collection": "c"})").status, 200);
  ExpectError(Post("/v1/collections/c/count", R"({"collection": "d"})"), 400, kInvalidArgument,
              R"(collection = "d", must be "c" as in the path)");
}

TEST_F(HttpCallsTest, ACallWithoutFieldsNeedsNoBody) {
  ServeRows();
  EXPECT_EQ(ApiClient(port()).Call("POST", "/v1/collections/c/count").Json()["rows_count"], "4");
}

TEST_F(HttpCallsTest, UnknownPathsMethodsAndParametersAreRefused) {
  ServeRows();
  ExpectError(Get("/v1/collection"), 404, kNotFound, "there is no \"/v1/collection\"");
  const ApiAnswer other = Get(kSearchPath);
  ExpectError(other, 405, kUnimplemented, "POST");
  EXPECT_EQ(other.Header("Allow"), "POST");
  ExpectError(Get("/v1/limits?x=1"), 400, kInvalidArgument, "x: GetLimitsRequest has no such");
  ExpectError(Post("/v1/collections/c/count?x=1", "{}"), 400, kInvalidArgument, "query");
  ExpectError(ApiClient(port()).Call("GET", "/v1/limits", "{}"), 400, kInvalidArgument, "body");
  ExpectError(Post("/v1/collections/c/count", R"({"filter": "x"})"), 400, kInvalidArgument,
              "filter: CountRequest has no such field");
}

TEST_F(HttpCallsTest, ABodyMustBeJsonOfAKnownSize) {
  Set(settings_.request_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "1KiB");
  ServeRows();
  ExpectError(Post(kSearchPath, kSearch, {{"Content-Type", "text/plain"}}), 415, kInvalidArgument,
              "application/json");
  EXPECT_EQ(
      Post(kSearchPath, kSearch, {{"Content-Type", "Application/JSON; charset=utf-8"}}).status,
      200);
  ExpectError(Post(kSearchPath, std::string(65537, ' ')), 413, kResourceExhausted,
              "65537 bytes, the limit request_bytes_max is 65536");
  EXPECT_EQ(Post(kSearchPath, std::string(65536 - sizeof(kSearch) + 1, ' ') + kSearch).status, 200);
  ApiClient chunked(port());
  chunked.Write(
      "POST /v1/collections/c/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  ExpectError(chunked.Read(), 411, kInvalidArgument, "Content-Length");
}

TEST_F(HttpCallsTest, RefusedBodiesAreCountedAsCallsOfTheirMethod) {
  ServeRows();
  ExpectError(Post(kSearchPath, "{"), 400, kInvalidArgument, "not JSON at byte 1");
  const CallCounts counts = server_->state().call_counter().counts();
  EXPECT_EQ(counts.count({"Search", "INVALID_ARGUMENT"}), 1u);
}

TEST_F(HttpCallsTest, AServerThatDoesNotServeSaysWhenToReturn) {
  Listen();
  const ApiAnswer answer = Post(kSearchPath, kSearch);
  ExpectError(answer, 503, kUnavailable, "start");
  EXPECT_EQ(answer.Header("Retry-After"), "1");
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

TEST_F(HttpCallsTest, ADeadlineEndsTheCall) {
  ServeRows();
  script_->search_gate.Close();
  ExpectError(Post(kSearchPath, kSearch, {{"nearfield-timeout-ms", "20"}}), 504, kDeadlineExceeded,
              "deadline");
  script_->search_gate.Open();
  for (const char* const wrong : {"0", "x", "1.5", "86400001", "-1"}) {
    ExpectError(Post(kSearchPath, kSearch, {{"nearfield-timeout-ms", wrong}}), 400,
                kInvalidArgument, "nearfield-timeout-ms");
  }
}

TEST_F(HttpCallsTest, AClientThatLeavesCancelsItsCall) {
  ServeRows();
  ApiClient client(port());
  const std::string waits = R"({"min_epoch": "99"})";
  client.Write(
      "POST /v1/collections/c/count HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(waits.size()) + "\r\n\r\n" + waits);
  EXPECT_TRUE(Eventually([&] { return server_->state().OneCall(); }));
  client.Close();
  EXPECT_TRUE(Eventually([&] {
    return server_->state().call_counter().counts().count({"Count", "CANCELLED"}) > 0;
  }));
}

TEST_F(HttpCallsTest, TheLogNamesTheCallerAndTheRequest) {
  ServeRows();
  ASSERT_EQ(Post("/v1/collections/c/count", "{}",
                 {{"X-Request-Id", "r1"}, {"nearfield-caller", "someone"}})
                .status,
            200);
  ExpectError(Post("/v1/collections/c/count", "{}", {{"nearfield-caller", std::string(129, 'a')}}),
              400, kInvalidArgument, "nearfield-caller");
  Drain();  // the line of a call is written after its reply
  bool found = false;
  for (const std::string& line : LogLines()) {
    found =
        found || (line.find("r1") != std::string::npos && line.find("Count") != std::string::npos &&
                  line.find("ipv4:127.0.0.1:") != std::string::npos);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace nearfield::server
