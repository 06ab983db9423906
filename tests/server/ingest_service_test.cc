// Ingest over a real channel: every state of an upload, every status code.
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
using Stream = grpc::ClientReaderWriter<pb::UploadRequest, pb::UploadResponse>;

class IngestServiceTest : public ServerFixture {
 protected:
  void ServeEmpty() {
    Serve();
    ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  }
  // Sends all, half-closes, reads all.
  grpc::Status Send(const std::vector<pb::UploadRequest>& requests,
                    std::vector<pb::UploadResponse>* responses = nullptr,
                    grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    const auto stream = ingest_->Upload(context == nullptr ? &own : context);
    for (const pb::UploadRequest& request : requests) {
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    for (pb::UploadResponse response; stream->Read(&response);) {
      if (responses != nullptr) responses->push_back(response);
    }
    return stream->Finish();
  }
  uint64_t RowsCount() {
    pb::CountRequest request;
    request.set_collection("c");
    pb::CountResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(retrieval_->Count(&context, request, &response), HasCode(grpc::StatusCode::OK));
    return response.rows_count();
  }
  // Waits for the event that the last upload has let go of its memory.
  void AwaitNoUpload() {
    while (script_->uploads_open > 0) std::this_thread::yield();
  }
};

TEST_F(IngestServiceTest, AnUploadIsAcceptedReportsProgressAndCommitsAsOneEpoch) {
  ServeEmpty();
  std::vector<pb::UploadResponse> responses;
  ASSERT_THAT(Send({Begin("c", 10), Block({1, 2}), Block({3}), Commit()}, &responses),
              HasCode(grpc::StatusCode::OK));
  ASSERT_GE(responses.size(), 2u);
  EXPECT_EQ(responses.front().accepted().rows_max(), 10u);
  EXPECT_EQ(responses.back().committed().rows_count(), 3u);
  EXPECT_EQ(responses.back().committed().epoch(), 1u);
  for (size_t i = 1; i + 1 < responses.size(); ++i) EXPECT_TRUE(responses[i].has_progress());
  EXPECT_EQ(RowsCount(), 3u);
  AwaitNoUpload();
  EXPECT_EQ(script_->device_bytes_used, 3 * 8)
      << "the unused part of the reservation is given back";
}

TEST_F(IngestServiceTest, NothingIsVisibleBeforeCommit) {
  ServeEmpty();
  grpc::ClientContext context;
  const auto stream = ingest_->Upload(&context);
  pb::UploadResponse response;
  stream->Write(Begin("c", 10));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_accepted());
  stream->Write(Block({1, 2}));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.progress().rows_received(), 2u);
  EXPECT_GT(response.progress().bytes_received(), 0u);
  EXPECT_EQ(RowsCount(), 0u);
  stream->Write(Commit());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.committed().rows_count(), 2u);
  EXPECT_EQ(RowsCount(), 2u);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::OK)) << "without closing its side";
}

// An upload that must be refused, and how.
struct BadUpload {
  std::vector<pb::UploadRequest> requests;
  grpc::StatusCode code;
  std::string message;
};

class BadUploadTest : public IngestServiceTest {
 protected:
  static pb::UploadRequest BeginWith(const std::function<void(pb::UploadBegin&)>& change) {
    pb::UploadRequest request = Begin("c", 10, 100);
    change(*request.mutable_begin());
    return request;
  }
  static pb::UploadRequest BlockWith(const std::function<void(pb::UploadBlock&)>& change) {
    pb::UploadRequest request = Block({1, 2}, "p");
    change(*request.mutable_block());
    return request;
  }

  static std::vector<BadUpload> BadOrdersAndCounts() {
    pb::UploadRequest wrong_count = Commit();
    wrong_count.mutable_commit()->set_rows_count(3);
    return {
        {{}, kInvalid, "ended before commit"},
        {{Begin("c", 1)}, kInvalid, "ended before commit"},
        {{Begin("c", 2), Block({1, 2})}, kInvalid, "ended before commit"},
        {{Block({1})}, kInvalid, "a block where begin"},
        {{Commit()}, kInvalid, "commit where begin"},
        {{Begin("c", 1), Begin("c", 1)}, kInvalid, "a second begin"},
        {{pb::UploadRequest()}, kInvalid, "none of begin"},
        {{Begin("c", 1), Block({1, 2})}, kInvalid, "begin.rows_max declared 1"},
        {{Begin("c", 2), Block({1, 2}), Block({3})}, kInvalid, "1 rows after 2"},
        {{Begin("c", 2), Block({1, 2}), wrong_count},
         kInvalid,
         "commit.rows_count: 3, the upload has 2"},
        {{Begin("c", 2), Block({1, 1}), Commit()}, grpc::StatusCode::ALREADY_EXISTS, "row 1"},
        {{Begin("c", 2), Block({1, 7}), Commit()}, grpc::StatusCode::ALREADY_EXISTS, "row 1"},
    };
  }

  static std::vector<BadUpload> BadBegins() {
    return {
        {{BeginWith([](auto& b) { b.clear_rows_max(); })}, kInvalid, "begin.rows_max: absent"},
        {{BeginWith([](auto& b) { b.set_rows_max(0); })},
         kInvalid,
         "begin.rows_max: 0, must be 1 .. 4294967294"},
        {{BeginWith([](auto& b) { b.set_rows_max(~uint64_t{0}); })},
         kInvalid,
         "begin.rows_max: 18446744073709551615"},
        {{BeginWith([](auto& b) { b.clear_payload_bytes_max(); })},
         kInvalid,
         "begin.payload_bytes_max: absent"},
        {{BeginWith([](auto& b) { b.set_payload_bytes_max(~uint64_t{0}); })},
         kInvalid,
         "begin.payload_bytes_max: 184"},
        {{BeginWith([](auto& b) { b.set_collection("nope"); })},
         grpc::StatusCode::NOT_FOUND,
         "nope"},
        {{BeginWith([](auto& b) { b.set_mode(pb::UPLOAD_MODE_UPSERT); })},
         grpc::StatusCode::UNIMPLEMENTED,
         "mode"},
        {{BeginWith([](auto& b) { b.set_mode(pb::UPLOAD_MODE_REPLACE); })},
         grpc::StatusCode::UNIMPLEMENTED,
         "mode"},
        {{BeginWith([](auto& b) { b.set_upload_token("t"); })},
         grpc::StatusCode::UNIMPLEMENTED,
         "upload_token"},
        {{Begin("c", 1 << 30)}, grpc::StatusCode::RESOURCE_EXHAUSTED, "free are"},
    };
  }

  static std::vector<BadUpload> BadBlocks() {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    return {
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT16); })},
         kInvalid,
         "dtype: fp16, the collection has fp32"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.mutable_vectors()->clear_dtype(); })},
         kInvalid,
         "dtype: 0"},
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.mutable_vectors()->mutable_data()->pop_back(); })},
         kInvalid,
         "15 bytes for 2 ids"},
        {{BeginWith([](auto&) {}), BlockWith([&](auto& b) {
            b.mutable_vectors()->set_data(Bytes({1, 1, nan, 1}));
          })},
         kInvalid,
         "row 1"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.mutable_ids()->clear_numbers(); })},
         kInvalid,
         "block.ids: 0 ids"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.mutable_ids()->add_texts("a"); })},
         kInvalid,
         "block.ids.texts: 1"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.add_payloads("more"); })},
         kInvalid,
         "block.payloads: 3 for 2"},
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.set_payloads(1, std::string(1025, 'x')); })},
         kInvalid,
         "block.payloads[1]: 1025 bytes, the limit is 1024"},
        {{BeginWith([](auto&) {}),
          BlockWith([](auto& b) { b.set_payloads(1, std::string(100, 'x')); })},
         kInvalid,
         "begin.payload_bytes_max declared 100"},
        {{BeginWith([](auto&) {}), BlockWith([](auto& b) { b.set_block_number(1); })},
         grpc::StatusCode::UNIMPLEMENTED,
         "block_number"},
    };
  }

  void ExpectRefused(const std::vector<BadUpload>& uploads) {
    for (const BadUpload& each : uploads) {
      EXPECT_THAT(Send(each.requests), HasCodeAndMessage(each.code, HasSubstr(each.message)));
    }
  }
};

TEST_F(BadUploadTest, IsNamedAndLeavesNothing) {
  Set(settings_.payload_bytes_max, "1KiB");
  ServeEmpty();
  ASSERT_THAT(CreateCollection("texts", 2, pb::METRIC_DOT, pb::ID_TYPE_STRING),
              HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {7}), HasCode(grpc::StatusCode::OK));
  ExpectRefused(BadOrdersAndCounts());
  ExpectRefused(BadBegins());
  ExpectRefused(BadBlocks());
  for (const std::string& text : {std::string(), std::string(513, 'x')}) {
    pb::UploadRequest texts = Block({1});
    texts.mutable_block()->mutable_ids()->clear_numbers();
    texts.mutable_block()->mutable_ids()->add_texts(text);
    EXPECT_THAT(Send({Begin("texts", 1), texts}),
                HasCodeAndMessage(kInvalid, HasSubstr("block.ids.texts[0]")));
  }
  AwaitNoUpload();
  EXPECT_EQ(RowsCount(), 1u);
  EXPECT_EQ(script_->device_bytes_used, 8);
}

TEST_F(IngestServiceTest, AnUploadOfADroppedCollectionIsAborted) {
  ServeEmpty();
  grpc::ClientContext context;
  const auto stream = ingest_->Upload(&context);
  pb::UploadResponse response;
  stream->Write(Begin("c", 1));
  ASSERT_TRUE(stream->Read(&response));
  pb::DropCollectionRequest drop;
  drop.set_name("c");
  pb::DropCollectionResponse dropped;
  grpc::ClientContext drop_context;
  ASSERT_THAT(admin_->DropCollection(&drop_context, drop, &dropped), HasCode(grpc::StatusCode::OK));
  stream->Write(Block({1}));
  stream->Write(Commit());
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(), HasCodeAndMessage(grpc::StatusCode::ABORTED, HasSubstr("dropped")));
  AwaitNoUpload();
  EXPECT_EQ(script_->device_bytes_used, 0);
}

TEST_F(IngestServiceTest, ASilentClientIsGivenUp) {
  Set(settings_.upload_idle_ms, "50");
  ServeEmpty();
  grpc::ClientContext context;
  const auto stream = ingest_->Upload(&context);
  pb::UploadResponse response;
  stream->Write(Begin("c", 1));
  stream->Write(Block({1}));
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(), HasCodeAndMessage(grpc::StatusCode::DEADLINE_EXCEEDED,
                                                  HasSubstr("upload_idle_ms is 50")));
  AwaitNoUpload();
  EXPECT_EQ(RowsCount(), 0u);
}

TEST_F(IngestServiceTest, ASlowEngineIsNoSilentClientAndBlocksNobody) {
  Set(settings_.upload_idle_ms, "50");
  ServeEmpty();
  script_->append_gate.Close();
  auto upload = std::async(std::launch::async, [&] {
    return Send({Begin("c", 2), Block({1}), Block({2}), Commit()});
  });
  script_->append_gate.AwaitArrivals(1);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(200))
    EXPECT_EQ(RowsCount(), 0u);
  script_->append_gate.Open();
  EXPECT_THAT(upload.get(), HasCode(grpc::StatusCode::OK));
}

TEST_F(IngestServiceTest, TooManyUploadsAtOnceAreRefusedWithAHint) {
  Set(settings_.uploads_max, "2");
  ServeEmpty();
  grpc::ClientContext contexts[2];
  std::unique_ptr<Stream> streams[2];
  for (int i = 0; i < 2; ++i) {
    streams[i] = ingest_->Upload(&contexts[i]);
    streams[i]->Write(Begin("c", 1));
    pb::UploadResponse response;
    ASSERT_TRUE(streams[i]->Read(&response));
  }
  grpc::ClientContext context;
  EXPECT_THAT(
      Send({Begin("c", 1)}, nullptr, &context),
      HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED, HasSubstr("uploads_max is 2")));
  EXPECT_TRUE(Trailer(context, "retry-after-ms").has_value());
  contexts[0].TryCancel();
  EXPECT_THAT(streams[0]->Finish(), HasCode(grpc::StatusCode::CANCELLED));
  while (script_->uploads_open > 1) std::this_thread::yield();
  grpc::Status status;
  do {  // the place is free once the stream is gone, moments after its memory
    status = Send({Begin("c", 1), Block({1}), Commit()});
  } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status, HasCode(grpc::StatusCode::OK));
  contexts[1].TryCancel();
  EXPECT_THAT(streams[1]->Finish(), HasCode(grpc::StatusCode::CANCELLED));
}

// A client that waited for its upload to end was refused the next one: its place was not free yet.
TEST_F(IngestServiceTest, UploadsOneAfterTheOtherNeedOnePlace) {
  Set(settings_.uploads_max, "1");
  ServeEmpty();
  for (uint64_t id = 0; id < 100; ++id) {
    ASSERT_THAT(UploadRows("c", {id}), HasCode(grpc::StatusCode::OK)) << id;
    ASSERT_THAT(UploadRows("c", {id}), HasCode(grpc::StatusCode::ALREADY_EXISTS)) << id;
  }
}

// A client that sent each block only after the progress on the one before waited for ever where
// that progress fell into the write of the one before it.
TEST_F(IngestServiceTest, TheLatestProgressAlwaysArrives) {
  ServeEmpty();
  grpc::ClientContext context;
  const auto stream = ingest_->Upload(&context);
  pb::UploadResponse response;
  stream->Write(Begin("c", 500));
  ASSERT_TRUE(stream->Read(&response));
  for (uint64_t id = 0; id < 500; ++id) {
    stream->Write(Block({id}));
    ASSERT_TRUE(stream->Read(&response));
    ASSERT_EQ(response.progress().rows_received(), id + 1);
  }
  stream->Write(Commit());
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.committed().rows_count(), 500u);
}

TEST_F(IngestServiceTest, ACancelledUploadLeavesNothingEvenWhileTheEngineWorks) {
  ServeEmpty();
  script_->append_gate.Close();
  grpc::ClientContext context;
  const auto stream = ingest_->Upload(&context);
  stream->Write(Begin("c", 1));
  stream->Write(Block({1}));
  stream->Write(Commit());
  script_->append_gate.AwaitArrivals(1);
  context.TryCancel();
  EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::CANCELLED));
  // Whether the server heard of it before the commit is a race; half an upload never is.
  script_->append_gate.Open();
  AwaitNoUpload();
  const uint64_t rows = RowsCount();
  EXPECT_LE(rows, 1u);
  EXPECT_EQ(script_->device_bytes_used, static_cast<int64_t>(rows) * 8);
}

TEST_F(IngestServiceTest, ADeadlineEndsAnUpload) {
  ServeEmpty();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const auto stream = ingest_->Upload(&context);
  stream->Write(Begin("c", 1));
  pb::UploadResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::DEADLINE_EXCEEDED));
  AwaitNoUpload();
  EXPECT_EQ(script_->device_bytes_used, 0);
}

TEST_F(IngestServiceTest, AClientThatReadsNoProgressStillUploads) {
  ServeEmpty();
  std::vector<pb::UploadRequest> requests = {Begin("c", 2000)};
  for (uint64_t id = 0; id < 2000; ++id) requests.push_back(Block({id}));
  requests.push_back(Commit());
  std::vector<pb::UploadResponse> responses;
  EXPECT_THAT(Send(requests, &responses), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(responses.back().committed().rows_count(), 2000u);
  EXPECT_EQ(RowsCount(), 2000u);
}

TEST_F(IngestServiceTest, ManyUploadsAtOnceAllCommit) {
  ServeEmpty();
  constexpr uint64_t kUploads = 8;
  std::vector<std::future<grpc::Status>> uploads;
  for (uint64_t i = 0; i < kUploads; ++i) {
    uploads.push_back(std::async(std::launch::async, [&, i] {
      std::vector<pb::UploadRequest> requests = {Begin("c", 20)};
      for (uint64_t j = 0; j < 20; ++j) requests.push_back(Block({i * 20 + j}));
      requests.push_back(Commit());
      return Send(requests);
    }));
  }
  for (auto& upload : uploads) EXPECT_THAT(upload.get(), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(RowsCount(), kUploads * 20);
}

TEST_F(IngestServiceTest, ALostDeviceIsUnavailable) {
  ServeEmpty();
  script_->device_lost = true;
  grpc::ClientContext context;
  EXPECT_THAT(Send({Begin("c", 1), Block({1}), Commit()}, nullptr, &context),
              HasCode(grpc::StatusCode::UNAVAILABLE));
  EXPECT_TRUE(Trailer(context, "retry-after-ms").has_value());
}

}  // namespace
}  // namespace nearfield::server
