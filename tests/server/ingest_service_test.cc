// Tests of Ingest over a real channel: every state of an upload, every status code.
#include <chrono>
#include <future>
#include <thread>

#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class IngestServiceTest : public ServerFixture {};

TEST_F(IngestServiceTest, AnUploadIsAcceptedReportsProgressAndCommitsAsOneEpoch) {
  ServeEmpty();
  std::vector<pb::UploadResponse> responses;
  ASSERT_OK(Send({Begin("c", 10), Block({1, 2}), Block({3}), Commit()}, &responses));
  ASSERT_GE(responses.size(), 2u);
  EXPECT_EQ(responses.front().accepted().rows_max(), 10u);
  EXPECT_EQ(responses.back().committed().rows_count(), 3u);
  EXPECT_EQ(responses.back().committed().epoch(), 1u);
  for (size_t i = 1; i + 1 < responses.size(); ++i) EXPECT_TRUE(responses[i].has_progress());
  EXPECT_EQ(RowsCount(), 3u);
  AwaitNoUpload();
  EXPECT_EQ(script_->device->bytes_used(), 3 * kDeviceRowBytes)
      << "the unused part of the reservation is given back";
}

TEST_F(IngestServiceTest, NothingIsVisibleBeforeCommit) {
  ServeEmpty();
  UploadCall upload(*ingest_, {Begin("c", 10)});
  ASSERT_TRUE(upload.Read());
  EXPECT_TRUE(upload.response.has_accepted());
  upload.Write(Block({1, 2}));
  ASSERT_TRUE(upload.Read());
  EXPECT_EQ(upload.response.progress().rows_received(), 2u);
  EXPECT_GT(upload.response.progress().bytes_received(), 0u);
  EXPECT_EQ(RowsCount(), 0u);
  upload.Write(Commit());
  ASSERT_TRUE(upload.Read());
  EXPECT_EQ(upload.response.committed().rows_count(), 2u);
  EXPECT_EQ(RowsCount(), 2u);
  EXPECT_FALSE(upload.Read());
  EXPECT_OK(upload.Finish()) << "without closing its side";
}

TEST_F(IngestServiceTest, AnUploadOfADroppedCollectionIsAborted) {
  ServeEmpty();
  UploadCall upload(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(upload.Read());
  ASSERT_OK(Call(&Admin::DropCollection, Named("c")));
  upload.Write(Block({1}));
  upload.Write(Commit());
  EXPECT_THAT(upload.ReadToEnd(), RefusedWith(kAborted, "dropped"));
  AwaitNoUpload();
  EXPECT_EQ(script_->device->bytes_used(), 0);
}

TEST_F(IngestServiceTest, ASilentClientIsGivenUp) {
  Set(settings_.upload_idle_ms, "500");
  ServeEmpty();
  UploadCall upload(*ingest_, {Begin("c", 1), Block({1})});
  EXPECT_THAT(upload.ReadToEnd(), RefusedWith(kDeadlineExceeded, "upload_idle_ms is 500"));
  AwaitNoUpload();
  EXPECT_EQ(RowsCount(), 0u);
}

TEST_F(IngestServiceTest, ASlowEngineIsNoSilentClientAndBlocksNobody) {
  Set(settings_.upload_idle_ms, "1000");
  ServeEmpty();
  script_->append_gate.Close();
  auto upload = std::async(std::launch::async, [&] {
    return Send({Begin("c", 2), Block({1}), Block({2}), Commit()});
  });
  script_->append_gate.AwaitArrivals(1);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2000))
    EXPECT_EQ(RowsCount(), 0u);
  script_->append_gate.Open();
  EXPECT_OK(upload.get());
}

TEST_F(IngestServiceTest, TooManyUploadsAtOnceAreRefusedWithAHint) {
  Set(settings_.uploads_max, "2");
  Set(settings_.caller_share_percent, "100");
  ServeEmpty();
  UploadCall first(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(first.Read());
  UploadCall second(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(second.Read());
  grpc::ClientContext context;
  EXPECT_THAT(Send({Begin("c", 1)}, nullptr, &context),
              RefusedWith(kResourceExhausted, "uploads_max is 2"));
  EXPECT_TRUE(Trailer(context, "grpc-retry-pushback-ms").has_value());
  first.context.TryCancel();
  EXPECT_THAT(first.Finish(), HasCode(kCancelled));
  EXPECT_TRUE(Eventually([&] { return script_->uploads_open <= 1; }));
  grpc::Status status;
  do {  // the place is free once the stream is gone, shortly after its memory
    status = Send({Begin("c", 1), Block({1}), Commit()});
  } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_OK(status);
  second.context.TryCancel();
  EXPECT_THAT(second.Finish(), HasCode(kCancelled));
}

// Regression: a client that waited for the end of its upload was refused the next one, because its
// place was not free yet.
TEST_F(IngestServiceTest, UploadsOneAfterTheOtherNeedOnePlace) {
  Set(settings_.uploads_max, "1");
  ServeEmpty();
  for (uint64_t id = 0; id < 100; ++id) {
    ASSERT_OK(UploadRows("c", {id})) << id;
    ASSERT_THAT(UploadRows("c", {id}), HasCode(kAlreadyExists)) << id;
  }
}

// Regression: a client that sent each block only after the progress on the previous one waited
// forever if that progress was due during an earlier write.
TEST_F(IngestServiceTest, TheLatestProgressAlwaysArrives) {
  ServeEmpty();
  UploadCall upload(*ingest_, {Begin("c", 500)});
  ASSERT_TRUE(upload.Read());
  for (uint64_t id = 0; id < 500; ++id) {
    upload.Write(Block({id}));
    ASSERT_TRUE(upload.Read());
    ASSERT_EQ(upload.response.progress().rows_received(), id + 1);
  }
  upload.Write(Commit());
  ASSERT_TRUE(upload.Read());
  EXPECT_EQ(upload.response.committed().rows_count(), 500u);
}

TEST_F(IngestServiceTest, ACancelledUploadLeavesNothingEvenWhileTheEngineWorks) {
  ServeEmpty();
  script_->append_gate.Close();
  UploadCall upload(*ingest_, {Begin("c", 1), Block({1}), Commit()});
  script_->append_gate.AwaitArrivals(1);
  upload.context.TryCancel();
  EXPECT_THAT(upload.Finish(), HasCode(kCancelled));
  // It is a race whether the cancellation reaches the server before the commit. Half an upload is
  // never visible.
  script_->append_gate.Open();
  AwaitNoUpload();
  const uint64_t rows = RowsCount();
  EXPECT_LE(rows, 1u);
  EXPECT_EQ(script_->device->bytes_used(), static_cast<int64_t>(rows) * kDeviceRowBytes);
}

TEST_F(IngestServiceTest, ADeadlineEndsAnUpload) {
  ServeEmpty();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const auto stream = ingest_->Upload(&context);
  stream->Write(Begin("c", 1));
  for (pb::UploadResponse response; stream->Read(&response);) {
  }
  EXPECT_THAT(stream->Finish(), HasCode(kDeadlineExceeded));
  Drain();  // the server may hear of the upload after the client has abandoned it
  EXPECT_EQ(script_->device->bytes_used(), 0);
}

TEST_F(IngestServiceTest, AClientThatReadsNoProgressStillUploads) {
  ServeEmpty();
  std::vector<pb::UploadRequest> requests = {Begin("c", 2000)};
  for (uint64_t id = 0; id < 2000; ++id) requests.push_back(Block({id}));
  requests.push_back(Commit());
  std::vector<pb::UploadResponse> responses;
  EXPECT_OK(Send(requests, &responses));
  EXPECT_EQ(responses.back().committed().rows_count(), 2000u);
  EXPECT_EQ(RowsCount(), 2000u);
}

TEST_F(IngestServiceTest, ManyUploadsAtOnceAllCommit) {
  Set(settings_.caller_share_percent, "100");
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
  for (auto& upload : uploads) EXPECT_OK(upload.get());
  EXPECT_EQ(RowsCount(), kUploads * 20);
}

TEST_F(IngestServiceTest, ALostDeviceIsUnavailable) {
  ServeEmpty();
  script_->device->Lose();
  grpc::ClientContext context;
  EXPECT_THAT(Send({Begin("c", 1), Block({1}), Commit()}, nullptr, &context),
              HasCode(kUnavailable));
  EXPECT_TRUE(Trailer(context, "grpc-retry-pushback-ms").has_value());
}

}  // namespace
}  // namespace nearfield::server
