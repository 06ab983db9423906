// Tests of Retrieval over a real channel: SearchStream, Fetch, Count, GetLimits, and the metadata
// of every call.
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class RetrievalServiceTest : public ServerFixture {
 protected:
  // Opens a stream that sends raw bytes, so that tests can send invalid messages.
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> RawSearchStream(
      grpc::ClientContext* context) {
    using Factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;
    const grpc::internal::RpcMethod method("/nearfield.v1.Retrieval/SearchStream",
                                           grpc::internal::RpcMethod::BIDI_STREAMING);
    return std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>>(
        Factory::Create(channel_.get(), method, context));
  }
  static grpc::ByteBuffer Buffer(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return grpc::ByteBuffer(&slice, 1);
  }
};

TEST_F(RetrievalServiceTest, AStreamAnswersInOrder) {
  ServeRows();
  SearchStreamCall stream(*retrieval_);
  constexpr int kRequests = 100;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      pb::SearchRequest request = SearchFor("c", {1, 0});
      request.set_k(static_cast<uint32_t>(1 + i % 4));
      stream.Write(request);
    }
    stream.stream->WritesDone();
  });
  int replies = 0;
  for (; stream.Read(); ++replies)
    EXPECT_EQ(stream.response.results(0).scores_size(), 1 + replies % 4);
  writer.join();
  EXPECT_EQ(replies, kRequests);
  EXPECT_OK(stream.stream->Finish());
}

TEST_F(RetrievalServiceTest, AStreamEndsAtItsFirstFailureAndEarlierRepliesStand) {
  ServeRows();
  const pb::SearchRequest good = SearchFor("c", {1, 0});
  // The client need not have closed its side.
  SearchStreamCall stream(*retrieval_, {good, SearchFor("c", {1, 0, 0}), good});
  EXPECT_TRUE(stream.Read());
  EXPECT_FALSE(stream.Read());
  EXPECT_THAT(stream.stream->Finish(), RefusedWith(kInvalidArgument, "3 values"));
  EXPECT_THAT(Trailer(stream.context, "nearfield-request-id"), Optional(SizeIs(16)));
}

// Regression: the remaining searches of a failed stream continued on the device, for no reader.
TEST_F(RetrievalServiceTest, AFailedStreamCancelsItsOtherSearches) {
  ServeRows();
  ASSERT_OK(CreateCollection("d"));
  script_->search_gate.Close();
  pb::SearchRequest awaits = SearchFor("d", {1, 0});
  awaits.set_min_epoch(1);
  SearchStreamCall stream(*retrieval_, {awaits, SearchFor("c", {1, 0})});
  script_->search_gate.AwaitArrivals(1);
  ASSERT_OK(Call(&Admin::DropCollection, FromText("name: 'd'")));
  EXPECT_THAT(stream.stream->Finish(), HasCode(kNotFound));
  script_->search_gate.Open();
  Drain();
  EXPECT_EQ(script_->cancelled_searches, 1);
}

// Regression: a message that cannot be decoded ended the stream with OK and fewer replies than
// requests.
TEST_F(RetrievalServiceTest, AnUndecodableMessageEndsTheStreamWithAnError) {
  ServeRows();
  const std::string good = SearchFor("c", {1, 0}).SerializeAsString();
  std::string not_utf8 = SearchFor("NAME", {1, 0}).SerializeAsString();
  not_utf8.replace(not_utf8.find("NAME"), 4, "\xff\xfe\xfd\xfc");
  for (const std::string& bad : {std::string("\xff"), good.substr(0, good.size() - 1), not_utf8}) {
    grpc::ClientContext context;
    const auto stream = RawSearchStream(&context);
    for (const std::string& bytes : {good, good, bad, good}) stream->Write(Buffer(bytes));
    stream->WritesDone();
    grpc::ByteBuffer reply;
    int replies = 0;
    while (stream->Read(&reply)) ++replies;
    EXPECT_EQ(replies, 2);
    EXPECT_THAT(
        stream->Finish(),
        RefusedWith(kInvalidArgument, "request 3 of the stream: message: cannot be decoded"));
    EXPECT_TRUE(Trailer(context, "nearfield-request-id").has_value());
  }
}

TEST_F(RetrievalServiceTest, AStreamWithoutRequestsIsFineAndACancelledOneEnds) {
  ServeRows();
  SearchStreamCall empty(*retrieval_);
  empty.stream->WritesDone();
  EXPECT_OK(empty.stream->Finish());
  script_->search_gate.Close();
  SearchStreamCall cancelled(*retrieval_, {SearchFor("c", {1, 0})});
  script_->search_gate.AwaitArrivals(1);
  cancelled.context.TryCancel();
  EXPECT_THAT(cancelled.stream->Finish(), HasCode(kCancelled));
  Drain();
  EXPECT_EQ(script_->cancelled_searches, 1);
}

// Regression: invalid arguments waited for the epoch and ended with FAILED_PRECONDITION.
TEST_F(RetrievalServiceTest, FetchAndCountCheckTheirArgumentsBeforeTheyAwaitAnEpoch) {
  ServeRows();
  const auto soon = [] { return std::chrono::system_clock::now() + std::chrono::seconds(5); };
  const pb::FetchRequest fetch = FromText("collection: 'c' min_epoch: 1000");
  grpc::ClientContext fetch_context;
  fetch_context.set_deadline(soon());
  EXPECT_THAT(Call(&Retrieval::Fetch, fetch, nullptr, &fetch_context),
              RefusedWith(kInvalidArgument, "ids = 0 ids"));
  const pb::CountRequest count = FromText("collection: 'c' min_epoch: 1000 filter_text: ''");
  grpc::ClientContext count_context;
  count_context.set_deadline(soon());
  EXPECT_THAT(Call(&Retrieval::Count, count, nullptr, &count_context),
              RefusedWith(kInvalidArgument, "filter"));
}

// Regression: a name above the limit was silently ignored, and the caller shared the account of its
// address.
TEST_F(RetrievalServiceTest, ACallerNameAboveTheLimitIsRefused) {
  ServeRows();
  const auto status = [&](size_t bytes, auto call) {
    grpc::ClientContext context;
    context.AddMetadata("nearfield-caller", std::string(bytes, 'n'));
    return call(&context);
  };
  const auto search = [&](grpc::ClientContext* context) {
    return Search(SearchFor("c", {1, 0}), nullptr, context);
  };
  const auto stream = [&](grpc::ClientContext* context) {
    const auto searches = retrieval_->SearchStream(context);
    searches->Write(SearchFor("c", {1, 0}));
    searches->WritesDone();
    pb::SearchResponse response;
    while (searches->Read(&response)) {
    }
    return searches->Finish();
  };
  EXPECT_OK(status(128, search));
  EXPECT_OK(status(128, stream));
  const auto refused =
      RefusedWith(kInvalidArgument, "nearfield-caller = 129 bytes, must be 1 .. 128");
  EXPECT_THAT(status(129, search), refused);
  EXPECT_THAT(status(129, stream), refused);
}

TEST_F(RetrievalServiceTest, FetchReturnsRowsAsStoredAndListsTheMissing) {
  ServeRows();
  pb::FetchRequest request = FromText("collection: 'c' ids { numbers: [3, 9, 1, 3] }");
  pb::FetchResponse response;
  ASSERT_OK(Call(&Retrieval::Fetch, request, &response));
  EXPECT_EQ(response.epoch(), 1u);
  EXPECT_THAT(response.ids().numbers(), ElementsAre(3, 1, 3));
  EXPECT_THAT(response.missing().numbers(), ElementsAre(9));
  EXPECT_EQ(response.vectors().data(), Bytes({3, 1, 1, 1, 3, 1}));
  EXPECT_EQ(response.payloads_size(), 3);
  request.set_with_payload(false);
  request.set_with_vectors(false);
  ASSERT_OK(Call(&Retrieval::Fetch, request, &response));
  EXPECT_EQ(response.payloads_size(), 0);
  EXPECT_FALSE(response.has_vectors());
}

TEST_F(RetrievalServiceTest, FetchAndCountRefuseWhatTheContractSays) {
  Set(settings_.fetch_ids_max, "2");
  ServeRows();
  const auto fetch = [&](const std::string& text) {
    return Call(&Retrieval::Fetch, FromText(text));
  };
  EXPECT_THAT(fetch("collection: 'c'"),
              RefusedWith(kInvalidArgument, "ids = 0 ids, must be 1 .. 2"));
  EXPECT_THAT(fetch("collection: 'c' ids { numbers: [0, 1, 2] }"),
              RefusedWith(kInvalidArgument, "ids = 3 ids, must be 1 .. 2"));
  EXPECT_THAT(fetch("collection: 'c' ids { texts: 'a' }"), HasCode(kInvalidArgument));
  EXPECT_THAT(fetch("collection: 'x'"), HasCode(kNotFound));
  EXPECT_THAT(fetch("collection: 'x' min_epoch: 1"), HasCode(kNotFound));

  const pb::CountResponse counted = CallOk(&Retrieval::Count, FromText("collection: 'c'"));
  EXPECT_EQ(counted.rows_count(), 4u);
  EXPECT_EQ(counted.epoch(), 1u);
  EXPECT_THAT(Call(&Retrieval::Count, FromText("collection: 'x'")), HasCode(kNotFound));
  EXPECT_THAT(Call(&Retrieval::Count, FromText("collection: 'c' filter_text: ''")),
              RefusedWith(kInvalidArgument, "filter_text: column 1: a filter is expected"));
}

// The name is looked up once, before the wait. An alias that moves meanwhile changes nothing.
TEST_F(RetrievalServiceTest, AWaitForAnEpochStaysWithTheCollectionThatTheAliasNamed) {
  ServeRows();
  ASSERT_OK(CreateCollection("d"));
  ASSERT_OK(Call(&Admin::SetAlias, FromText("alias: 'live' collection: 'c'")));
  pb::CountResponse response;
  auto counted = std::async(std::launch::async, [&] {
    return Call(&Retrieval::Count, FromText("collection: 'live' min_epoch: 2"), &response);
  });
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() > 0; }));
  ASSERT_OK(Call(&Admin::SetAlias, FromText("alias: 'live' collection: 'd'")));
  ASSERT_OK(UploadRows("c", {5}));
  ASSERT_OK(counted.get());
  EXPECT_EQ(response.epoch(), 2u);
  EXPECT_EQ(response.rows_count(), 5u);
}

TEST_F(RetrievalServiceTest, LimitsAreAnsweredEvenBeforeTheServerServes) {
  Listen();
  const pb::GetLimitsResponse limits = CallOk(&Retrieval::GetLimits);
  EXPECT_EQ(limits.dim_max(), 8192u);
  EXPECT_EQ(limits.k_max(), 4096u);
  EXPECT_EQ(limits.queries_max(), 1024u);
  EXPECT_EQ(limits.fetch_ids_max(), 10000u);
  EXPECT_EQ(limits.request_bytes_max(), 64u << 20);
  EXPECT_EQ(limits.response_bytes_max(), 64u << 20);
  EXPECT_EQ(limits.id_bytes_max(), 512u);
  EXPECT_EQ(limits.payload_bytes_max(), 64u << 10);
  EXPECT_EQ(limits.collection_name_bytes_max(), 63u);
  EXPECT_LT(limits.upload_block_bytes_max(), limits.request_bytes_max());
  EXPECT_EQ(limits.rows_per_collection_max(), 0xfffffffeu);
  EXPECT_EQ(limits.collections_max(), 256u);
  EXPECT_EQ(limits.queue_requests_max(), 1024u);
}

// GetLimits did not return these limits: a client first saw them in the text of a refusal.
TEST_F(RetrievalServiceTest, LimitsNameEverySettingThatRefusesOrEndsACall) {
  Set(settings_.upload_tokens_max, "11");
  Set(settings_.upload_token_s, "12");
  Set(settings_.upload_idle_ms, "13");
  Set(settings_.caller_share_percent, "14");
  Set(settings_.search_ms_max, "15");
  Set(settings_.reply_unread_ms, "16");
  Set(settings_.streams_max, "17");
  Set(settings_.snapshots_max, "18");
  Listen();
  const pb::GetLimitsResponse limits = CallOk(&Retrieval::GetLimits);
  EXPECT_EQ(limits.upload_tokens_max(), 11u);
  EXPECT_EQ(limits.upload_token_s(), 12u);
  EXPECT_EQ(limits.upload_idle_ms(), 13u);
  EXPECT_EQ(limits.caller_share_percent(), 14u);
  EXPECT_EQ(limits.search_ms_max(), 15u);
  EXPECT_EQ(limits.reply_unread_ms(), 16u);
  EXPECT_EQ(limits.streams_max(), 17u);
  EXPECT_EQ(limits.snapshots_max(), 18u);
  EXPECT_EQ(limits.requests_bytes_max(), 512u << 20);
  EXPECT_EQ(limits.replies_bytes_max(), 1u << 30);
}

TEST_F(RetrievalServiceTest, EveryReplyAndErrorCarriesARequestIdAndOneLogLine) {
  ServeRows();
  for (const auto& [sent, collection] :
       std::vector<std::pair<std::string, std::string>>{{"mine-1", "c"}, {"mine-2", "nope\n"}}) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", sent);
    static_cast<void>(Search(SearchFor(collection, {1, 0}), nullptr, &context).ok());
    EXPECT_THAT(Trailer(context, "nearfield-request-id"), Optional(sent));
  }
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "has a blank");
  EXPECT_OK(Search(SearchFor("c", {1, 0}), nullptr, &context));
  EXPECT_THAT(Trailer(context, "nearfield-request-id"), Optional(MatchesRegex("[0-9a-f]+")));
  Drain();
  int found = 0;
  for (const nlohmann::json& line : LogLinesOf("request")) {
    if (line["request_id"] == "mine-1") {
      ++found;
      EXPECT_EQ(line["method"], "Search");
      EXPECT_EQ(line["status"], "OK");
      EXPECT_EQ(line["queries"], 1);
      EXPECT_EQ(line["k"], 10);
      EXPECT_EQ(line["rows"], 4);
      EXPECT_EQ(line["device_us"], 7);
      EXPECT_GT(line["total_us"], 0);
      EXPECT_THAT(line["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
    }
    if (line["request_id"] == "mine-2") {
      ++found;
      EXPECT_EQ(line["status"], "NOT_FOUND");
      EXPECT_EQ(line["collection"], "nope\n");
    }
  }
  EXPECT_EQ(found, 2);
}

TEST_F(RetrievalServiceTest, ALostDeviceIsUnavailableWithAHint) {
  ServeRows();
  script_->device->Lose();
  ExpectRefusedWithHint(&Retrieval::Search, SearchFor("c", {1, 0}),
                        RefusedWith(kUnavailable, "device is lost"));
}

}  // namespace
}  // namespace nearfield::server
