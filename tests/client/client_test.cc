// Tests of the client library against a server in this process.
#include "nearfield/client/client.h"

#include "client/cpp/retry.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/fake_clock.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

class ClientTest : public ::testing::Test {
 protected:
  Client MakeTestClient(milliseconds deadline = milliseconds(20000)) {
    return MakeClient(
        {.address = server_.address(), .deadline = deadline, .retry = {.tries_max = 100}}, &clock_);
  }

  // Creates collection "c" of the rows (1,0), (0,1), (1,1) with ids 1, 2, 3.
  void Fill(Client& client) {
    ASSERT_OK(client.CreateCollection({.name = "c", .dim = 2}));
    ASSERT_OK_AND_ASSIGN(
        auto upload,
        client.BeginUpload({.collection = "c", .rows_max = 3, .payload_bytes_max = 10}));
    const IdColumn ids = std::vector<uint64_t>{1, 2, 3};
    std::string vectors;
    ASSERT_TRUE(Narrow(DataType::kFloat32, std::vector<float>{1, 0, 0, 1, 1, 1}, &vectors));
    const std::vector<std::string> payloads = {"one", "", std::string("\0\xff", 2)};
    ASSERT_OK(upload.Write({.ids = &ids, .vectors = vectors, .payloads = payloads}));
    ASSERT_OK(upload.Commit());
  }

  TestServer server_;
  FakeClock clock_;
};

TEST_F(ClientTest, SearchesByFloatsBytesAndIds) {
  Client client = MakeTestClient();
  Fill(client);
  const std::vector<float> floats = {2, 1};
  std::string halves;
  ASSERT_TRUE(Narrow(DataType::kFloat16, floats, &halves));
  const std::vector<Query> queries = {std::span<const float>(floats),
                                      EncodedQuery{DataType::kFloat16, halves}, Id(uint64_t{3})};
  ASSERT_OK_AND_ASSIGN(
      const auto answer,
      client.Search("c", queries, {.k = 2, .with_payload = true, .with_vectors = true}));
  EXPECT_EQ(answer.epoch, 1u);
  EXPECT_FALSE(answer.request_id.empty());
  EXPECT_EQ(answer.cost.backend, Backend::kCpu);
  EXPECT_EQ(answer.cost.batch_size, 3u);
  ASSERT_THAT(answer.results, SizeIs(3));
  for (int i = 0; i < 2; ++i) {
    const Neighbors& neighbors = answer.results[static_cast<size_t>(i)];
    EXPECT_EQ(neighbors.ids, IdColumn(std::vector<uint64_t>{3, 1}));
    EXPECT_THAT(neighbors.scores, ElementsAre(3.0f, 2.0f));
    EXPECT_THAT(neighbors.payloads, ElementsAre(std::string("\0\xff", 2), "one"));
    EXPECT_THAT(Widen(neighbors.vectors.dtype, neighbors.vectors.bytes), ElementsAre(1, 1, 1, 0));
  }
  EXPECT_EQ(answer.results[2].ids,
            IdColumn(std::vector<uint64_t>{1, 2}));  // the answer excludes the row itself
}

TEST_F(ClientTest, EveryOtherCallGivesWhatTheServerSaid) {
  server_.KeepData();
  Client client = MakeTestClient();
  Fill(client);
  ASSERT_OK_AND_ASSIGN(const auto fetched, client.Fetch("c", std::vector<uint64_t>{9, 2}));
  EXPECT_EQ(fetched.ids, IdColumn(std::vector<uint64_t>{2}));
  EXPECT_EQ(fetched.missing, IdColumn(std::vector<uint64_t>{9}));
  EXPECT_THAT(Widen(fetched.vectors.dtype, fetched.vectors.bytes), ElementsAre(0, 1));
  EXPECT_EQ(client.Count("c")->rows_count, 3u);
  EXPECT_EQ(client.Delete("c", std::vector<uint64_t>{1, 9})->rows_deleted, 1u);
  EXPECT_EQ(client.GetCollection("c")->epoch, 2u);
  EXPECT_EQ(client.GetCollection("c")->rows_count, 2u);
  EXPECT_THAT(*client.ListCollections(), SizeIs(1));
  EXPECT_EQ(client.GetCollection("c")->scan_precision, ScanPrecision::kRows);
  EXPECT_TRUE(client.GetCollection("c")->durable && client.GetCollection("c")->error.empty());
  server_.OnReply<v1::GetCapacityResponse>("GetCapacity",
                                           [](auto* reply) { reply->set_device_name("a device"); });
  EXPECT_EQ(client.GetCapacity()->device_name, "a device");
  EXPECT_EQ(client.DropCollection("c").value(), 2u);
  EXPECT_THAT(client.Count("c"), StatusIs(kNotFound));
}

TEST_F(ClientTest, LimitsAreAskedForOnce) {
  server_.Set("queries_max", "64");
  Client client = MakeTestClient();
  EXPECT_EQ(client.GetLimits()->queries_max, 64u);
  EXPECT_EQ(client.GetLimits()->queries_max, 64u);
  EXPECT_EQ(server_.calls("GetLimits"), 1);
}

TEST_F(ClientTest, VerifyCarriesTheClaim) {
  Client client = MakeTestClient();
  Fill(client);
  const std::vector<float> query = {2, 1};
  ASSERT_OK_AND_ASSIGN(auto answer, client.Search("c", query));
  Neighbors& neighbors = answer.results[0];
  const Query asked = std::span<const float>(query);
  const VerifyClaim claim{.k = 10, .epoch = answer.epoch, .neighbors = &neighbors};
  EXPECT_TRUE(client.Verify("c", asked, claim)->equal);
  neighbors.scores[1] = 2.0000002f;
  ASSERT_OK_AND_ASSIGN(const auto check, client.Verify("c", asked, claim));
  EXPECT_FALSE(check.equal);
  EXPECT_EQ(check.first_difference, 1);
  EXPECT_THAT(check.expected.scores, ElementsAre(3.0f, 2.0f, 1.0f));
}

TEST_F(ClientTest, ErrorsKeepTheServersMessageAndRequestId) {
  Client client = MakeTestClient();
  const auto status = client.Count("none").status();
  EXPECT_THAT(status, StatusIs(kNotFound, "collection: no collection \"none\""));
  EXPECT_EQ(RequestIdOf(status), server_.request_id("Count"));
  EXPECT_FALSE(IsUnreachable(status));
}

TEST_F(ClientTest, TransientRefusalsAreRepeatedWhereThatIsSafe) {
  server_.KeepData();
  Client client = MakeTestClient();
  Fill(client);
  const std::vector<Refusal> refusals = {{absl::UnavailableError("starting"), std::nullopt},
                                         {absl::ResourceExhaustedError("queue full"), "250"}};
  const std::vector<float> query = {1, 0};
  server_.Refuse("Search", refusals);
  EXPECT_OK(client.Search("c", query));
  EXPECT_EQ(server_.calls("Search"), 3);
  ASSERT_THAT(clock_.sleeps(), SizeIs(2));
  EXPECT_EQ(clock_.sleeps()[1], milliseconds(250));
  for (const std::string method : {"Fetch", "Count", "Delete", "GetCollection", "Verify", "Upload",
                                   "Compact", "ListSnapshots"}) {
    server_.Refuse(method, refusals);
  }
  EXPECT_OK(client.Fetch("c", std::vector<uint64_t>{1}));
  EXPECT_OK(client.Count("c"));
  EXPECT_OK(client.Delete("c", std::vector<uint64_t>{1}));
  EXPECT_OK(client.GetCollection("c"));
  EXPECT_OK(client.Compact("c"));
  EXPECT_OK(client.ListSnapshots());
  EXPECT_OK(client.Verify("c", std::span<const float>(query), {}));
  EXPECT_OK(client.BeginUpload(
      {.collection = "c", .rows_max = 1}));  // it may be repeated before its first row
}

TEST_F(ClientTest, MakingAndDroppingAreNeverRepeated) {
  Client client = MakeTestClient();
  for (const std::string method : {"CreateCollection", "DropCollection", "Check", "SetAlias",
                                   "DropAlias", "CreateSnapshot", "DeleteSnapshot"}) {
    server_.Refuse(method, {{absl::UnavailableError("starting"), "1"}});
  }
  EXPECT_THAT(client.CreateCollection({.name = "c", .dim = 2}), StatusIs(kUnavailable));
  EXPECT_THAT(client.DropCollection("c"), StatusIs(kUnavailable));
  EXPECT_THAT(client.SetAlias("a", "c"), StatusIs(kUnavailable));
  EXPECT_THAT(client.DropAlias("a"), StatusIs(kUnavailable));
  EXPECT_THAT(client.CreateSnapshot("s"), StatusIs(kUnavailable));
  EXPECT_THAT(client.DeleteSnapshot("s"), StatusIs(kUnavailable));
  EXPECT_THAT(client.CheckHealth(), StatusIs(kUnavailable));
  EXPECT_TRUE(clock_.sleeps().empty());
}

TEST_F(ClientTest, RefusalForLackOfMemoryIsFinal) {
  Client client = MakeTestClient();
  server_.Refuse("Count", {{absl::ResourceExhaustedError("needs 5, 3 free"), std::nullopt}});
  EXPECT_THAT(client.Count("c"), StatusIs(kResourceExhausted, "needs 5, 3 free"));
  server_.Refuse("Count", {{absl::ResourceExhaustedError("odd hint"), "soon"}});
  EXPECT_THAT(client.Count("c"), StatusIs(kResourceExhausted, "odd hint"));
  EXPECT_EQ(server_.calls("Count"), 2);
}

// One deadline covers all tries: each try gets the remaining time.
TEST_F(ClientTest, TheDeadlineCoversAllTries) {
  Client client = MakeTestClient(milliseconds(20000));
  server_.Refuse("Count", std::vector<Refusal>(50, {absl::UnavailableError("draining"), "8000"}));
  EXPECT_THAT(client.Count("c"), StatusIs(kUnavailable, "draining"));
  const std::vector<int64_t> left = server_.deadlines_ms("Count");
  ASSERT_THAT(left, SizeIs(3));  // after 0, 8 and 16 s; a wait until 24 s would exceed the deadline
  // The bounds are coarse, because the header that carries a deadline rounds it up.
  EXPECT_GT(left[0], 16000);
  EXPECT_LT(left[1], 16000);
  EXPECT_LT(left[2], 8000);
}

TEST_F(ClientTest, NoServerIsToldApartFromARefusal) {
  auto client =
      MakeClient({.address = "unix:/nonexistent/socket", .retry = {.tries_max = 2}}, &clock_);
  const auto status = client.Count("c").status();
  EXPECT_THAT(status, StatusIs(kUnavailable));
  EXPECT_TRUE(IsUnreachable(status));
  EXPECT_THAT(clock_.sleeps(), SizeIs(1));
}

TEST_F(ClientTest, BadOptionsAreRefusedBeforeAnyCall) {
  EXPECT_THAT(Client::Connect({.address = ""}), StatusIs(kInvalidArgument, HasSubstr("address")));
  EXPECT_THAT(Client::Connect({.deadline = milliseconds(0)}), StatusIs(kInvalidArgument));
  EXPECT_THAT(Client::Connect({.retry = {.tries_max = 0}}), StatusIs(kInvalidArgument));
  EXPECT_OK(Client::Connect());
}

TEST_F(ClientTest, AnOversizedRequestIsNotSent) {
  server_.Set("request_bytes_max", "2000000");
  Client client = MakeTestClient();
  const std::vector<float> query(600000);
  EXPECT_THAT(client.Search("c", query), StatusIs(kInvalidArgument, HasSubstr("2000000")));
  EXPECT_EQ(server_.calls("Search"), 0);
}

TEST_F(ClientTest, TextThatIsNotUtf8IsNotSent) {
  Client client = MakeTestClient();
  Fill(client);
  const std::string bad = "a\xff";
  const IdColumn ids = std::vector<std::string>{"good", bad};
  const Query query = Id(bad);
  const std::vector<float> vector = {1, 0};
  const Neighbors claimed{.ids = ids, .scores = {1, 1}, .payloads = {}, .vectors = {}};
  const std::vector<std::pair<std::string, absl::Status>> refused = {
      {"collection", client.Search(bad, vector).status()},
      {"queries[0]", client.Search("c", std::span(&query, 1)).status()},
      {"ids[1]", client.Fetch("c", ids).status()},
      {"collection", client.Fetch(bad, std::vector<uint64_t>{1}).status()},
      {"ids[1]", client.Delete("c", ids).status()},
      {"collection", client.Count(bad).status()},
      {"queries[0]", client.Verify("c", query, {}).status()},
      {"claim.ids[1]",
       client
           .Verify("c", std::span<const float>(vector), {.k = 2, .epoch = 1, .neighbors = &claimed})
           .status()},
      {"name", client.CreateCollection({.name = bad, .dim = 2}).status()},
      {"name", client.DropCollection(bad).status()},
      {"alias", client.SetAlias(bad, "c").status()},
      {"collection", client.SetAlias("a", bad).status()},
      {"alias", client.DropAlias(bad).status()},
      {"name", client.CreateSnapshot(bad).status()},
      {"name", client.DeleteSnapshot(bad).status()},
      {"collection", client.Compact(bad).status()},
      {"name", client.GetCollection(bad).status()},
      {"collection", client.BeginUpload({.collection = bad, .rows_max = 1}).status()},
      {"collection", client.OpenSearchStream(bad).status()},
      {"service", client.CheckHealth(bad).status()}};
  for (const auto& [field, status] : refused) {
    EXPECT_THAT(status, StatusIs(kInvalidArgument, field + ": \"a\\xff\" is not UTF-8"));
  }
  for (const std::string method : {"Search", "Fetch", "Delete", "Count", "Verify", "GetCollection"})
    EXPECT_EQ(server_.calls(method), 0) << method;
  ASSERT_OK_AND_ASSIGN(auto stream, client.OpenSearchStream("c"));
  EXPECT_FALSE(stream.Send(std::span(&query, 1)));
  EXPECT_THAT(stream.Receive(), StatusIs(kInvalidArgument, HasSubstr("UTF-8")));
}

TEST_F(ClientTest, AStreamThatEndsWellWithoutAllAnswersIsAnError) {
  Client client = MakeTestClient();
  Fill(client);
  int answers = 0;
  server_.OnReply<v1::SearchResponse>("SearchStream", [&](const auto*) -> std::optional<Refusal> {
    if (++answers == 1) return std::nullopt;
    return Refusal{absl::OkStatus()};
  });
  ASSERT_OK_AND_ASSIGN(auto stream, client.OpenSearchStream("c"));
  const std::vector<float> vector = {1, 0};
  const Query query = std::span<const float>(vector);
  EXPECT_TRUE(stream.Send(std::span(&query, 1)));
  EXPECT_TRUE(stream.Send(std::span(&query, 1)));
  stream.SendDone();
  EXPECT_OK(stream.Receive());
  EXPECT_THAT(stream.Receive(), StatusIs(kInternal, HasSubstr("1 searches unanswered")));
}

// The limits are requested within the call, so they share its deadline.
TEST_F(ClientTest, AskingForTheLimitsTakesFromTheDeadlineOfTheCall) {
  server_.Set("request_bytes_max", "5000000");
  Client client = MakeTestClient(milliseconds(20000));
  server_.Refuse("GetLimits", {{absl::UnavailableError("starting"), "12000"}});
  EXPECT_THAT(client.Search("c", std::vector<float>(600000)), StatusIs(kNotFound));
  ASSERT_THAT(server_.deadlines_ms("Search"), SizeIs(1));
  EXPECT_LT(server_.deadlines_ms("Search")[0], 10000);
  Client another = MakeTestClient(milliseconds(20000));
  server_.Refuse("GetLimits",
                 std::vector<Refusal>(9, {absl::UnavailableError("starting"), "1500"}));
  EXPECT_THAT(
      another.BeginUpload({.collection = "c", .rows_max = 1, .deadline = milliseconds(4000)}),
      StatusIs(kUnavailable));
  EXPECT_THAT(server_.deadlines_ms("GetLimits"), SizeIs(2 + 3));  // after 0, 1.5 and 3 s
}

TEST_F(ClientTest, MalformedRepliesAreErrors) {
  Client client = MakeTestClient();
  Fill(client);
  const std::vector<std::function<void(v1::SearchResponse*)>> tampers = {
      [](auto* reply) { reply->clear_results(); },
      [](auto* reply) { reply->add_results(); },
      [](auto* reply) { reply->mutable_results(0)->clear_scores(); },
      [](auto* reply) { reply->mutable_results(0)->mutable_ids()->add_texts("x"); },
      [](auto* reply) { reply->mutable_results(0)->add_payloads("x"); },
      [](auto* reply) { reply->mutable_results(0)->mutable_vectors()->set_data("abc"); },
      [](auto* reply) { reply->mutable_results(0)->add_attributes(); },  // no values
      [](auto* reply) { reply->mutable_results(0)->add_attributes()->set_presence("abc"); },
      [](auto* reply) { reply->mutable_results(0)->add_attributes()->add_list_sizes(0); },
      [](auto* reply) {
        v1::AttributeColumn* column = reply->mutable_results(0)->add_attributes();
        column->set_presence(std::string(1, '\0'));
        column->mutable_values()->add_int64_values(1);
      },
      [](auto* reply) {
        reply->mutable_results(0)->mutable_vectors()->set_dtype(v1::DATA_TYPE_FLOAT32);
        reply->mutable_results(0)->mutable_vectors()->set_data("abc");
      }};
  for (size_t i = 0; i < tampers.size(); ++i) {
    server_.OnReply<v1::SearchResponse>("Search", tampers[i]);
    EXPECT_THAT(client.Search("c", std::vector<float>{1, 0}, {.with_payload = true}),  // not packed
                StatusIs(kInternal, HasSubstr("malformed reply")))
        << i;
  }
}

TEST_F(ClientTest, AStreamAnswersInOrderAndEndsWithItsStatus) {
  Client client = MakeTestClient();
  Fill(client);
  ASSERT_OK_AND_ASSIGN(auto stream, client.OpenSearchStream("c", {.k = 1}));
  const std::vector<std::vector<float>> vectors = {{1, 0}, {0, 1}};
  for (const auto& vector : vectors) {
    const Query query = std::span<const float>(vector);
    EXPECT_TRUE(stream.Send(std::span(&query, 1)));
  }
  for (const uint64_t id : {uint64_t{1}, uint64_t{2}}) {
    ASSERT_OK_AND_ASSIGN(const auto answer, stream.Receive());
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(At(answer->results[0].ids, 0), Id(id));
  }
  const std::vector<float> wrong = {1, 2, 3};
  const Query query = std::span<const float>(wrong);
  EXPECT_TRUE(stream.Send(std::span(&query, 1)));
  EXPECT_THAT(stream.Receive(),
              StatusIs(kInvalidArgument, HasSubstr("3 values, the collection has dim 2")));
  EXPECT_THAT(stream.Receive(), StatusIs(kInvalidArgument));
  auto ended = client.OpenSearchStream("c");
  ended->SendDone();
  ASSERT_OK_AND_ASSIGN(const auto end, ended->Receive());
  EXPECT_FALSE(end.has_value());
  const auto abandoned = client.OpenSearchStream("c");  // its destructor must not hang
}

TEST_F(ClientTest, HealthIsWatchedThroughItsChanges) {
  Client client = MakeTestClient();
  EXPECT_EQ(*client.CheckHealth(), Health::kServing);
  EXPECT_THAT(client.CheckHealth("unknown"), StatusIs(kNotFound));
  std::vector<Health> seen;
  EXPECT_OK(client.WatchHealth("", [&](Health health) {
    seen.push_back(health);
    if (seen.size() == 1) server_.StartDrain();
    return seen.size() < 2;
  }));
  EXPECT_THAT(seen, ElementsAre(Health::kServing, Health::kNotServing));
}

// A wait goes on through the end of a server, and ends at a refusal that waiting does not change.
TEST_F(ClientTest, AWaitForAServerGoesThroughItsRestart) {
  Client client = MakeTestClient();
  server_.Refuse("Watch", {{absl::UnavailableError("the server is shutting down")}});
  EXPECT_THAT(client.AwaitServing("", std::chrono::minutes(1)), IsOkAndHolds(Health::kServing));
  EXPECT_EQ(server_.calls("Watch"), 2);
  server_.Refuse("Watch", {{absl::PermissionDeniedError("another key")}});
  EXPECT_THAT(client.AwaitServing("", std::chrono::minutes(1)), StatusIs(kPermissionDenied));
  EXPECT_EQ(server_.calls("Watch"), 3);
  EXPECT_THAT(client.AwaitServing("unknown", std::chrono::milliseconds(100)),
              IsOkAndHolds(Health::kServiceUnknown));
}

}  // namespace
}  // namespace nearfield::client
