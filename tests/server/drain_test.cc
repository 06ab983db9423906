// Tests of the end of a server with calls in flight.
#include <future>
#include <string>
#include <thread>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

class ServerDrainTest : public ServerFixture {
 protected:
  static void ExpectEndedByTheServer(const grpc::Status& status,
                                     const grpc::ClientContext& context) {
    EXPECT_THAT(status, HasCode(grpc::StatusCode::UNAVAILABLE));
    EXPECT_EQ(Trailer(context, "retry-after-ms"), "1000");
    EXPECT_TRUE(Trailer(context, "nearfield-request-id").has_value());
  }
};

// Regression: gRPC cancelled the remaining calls, and its statuses lacked the metadata that every
// error promises.
TEST_F(ServerDrainTest, AfterTheDrainTimeWhatIsLeftIsUnavailableWithItsMetadata) {
  Set(settings_.drain_ms, "20");
  ServeRows();
  script_->search_gate.Close();
  grpc::ClientContext search_context;
  auto search = std::async(std::launch::async, [&] {
    pb::SearchResponse response;
    return retrieval_->Search(&search_context, SearchFor("c", {1, 0}), &response);
  });
  script_->search_gate.AwaitArrivals(1);
  grpc::ClientContext upload_context;
  const auto upload = ingest_->Upload(&upload_context);
  upload->Write(Begin("c", 1));
  pb::UploadResponse response;
  ASSERT_TRUE(upload->Read(&response));
  grpc::ClientContext idle_context;
  const auto idle_stream = retrieval_->SearchStream(&idle_context);
  Drain();
  ExpectEndedByTheServer(search.get(), search_context);
  ExpectEndedByTheServer(upload->Finish(), upload_context);
  ExpectEndedByTheServer(idle_stream->Finish(), idle_context);
  EXPECT_EQ(script_->cancelled_searches, 1);
  EXPECT_EQ(script_->uploads_open, 0);
}

// Regression: a call that waited for an epoch delayed the end for the whole drain time.
TEST_F(ServerDrainTest, AWaitForAnEpochEndsWhenTheDrainBegins) {
  Set(settings_.drain_ms, "86400000");
  ServeRows();
  grpc::ClientContext context;
  auto search = std::async(std::launch::async, [&] {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    request.set_min_epoch(1000);
    pb::SearchResponse response;
    return retrieval_->Search(&context, request, &response);
  });
  while (server_->state().core()->epoch_waiters.waiting() == 0) std::this_thread::yield();
  Drain();
  ExpectEndedByTheServer(search.get(), context);
}

// Regression: an upload with a silent client also delayed the end.
TEST_F(ServerDrainTest, ASilentUploadEndsSoonAfterTheDrainBegins) {
  Set(settings_.drain_ms, "86400000");
  Set(settings_.upload_idle_ms, "3000");
  ServeRows();
  grpc::ClientContext context;
  const auto upload = ingest_->Upload(&context);
  upload->Write(Begin("c", 1));
  pb::UploadResponse response;
  ASSERT_TRUE(upload->Read(&response));
  Drain();
  const grpc::Status status = upload->Finish();
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("the server is draining"));
  ExpectEndedByTheServer(status, context);
}

// A watch begins before its collection exists, and outlives it.
TEST_F(ServerDrainTest, AHealthWatchFollowsACollectionFromBeforeItIsCreatedToTheDrain) {
  using Health = grpc::health::v1::HealthCheckResponse;
  Serve();
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("nearfield.v1.Collection/c");
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, request);
  const auto next = [&watch] {
    Health response;
    return watch->Read(&response) ? response.status() : Health::UNKNOWN;
  };
  EXPECT_EQ(next(), Health::SERVICE_UNKNOWN);
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(next(), Health::SERVING);
    pb::DropCollectionRequest drop;
    drop.set_name("c");
    pb::DropCollectionResponse dropped;
    grpc::ClientContext drop_context;
    ASSERT_THAT(admin_->DropCollection(&drop_context, drop, &dropped),
                HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(next(), Health::SERVICE_UNKNOWN);
  }
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  EXPECT_EQ(next(), Health::NOT_SERVING);
  EXPECT_EQ(next(), Health::UNKNOWN);  // the end of the watch
  EXPECT_THAT(watch->Finish(), HasCode(grpc::StatusCode::UNAVAILABLE));
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  server_ = nullptr;
}

// A stream ends when it is cancelled; its search ends when the engine has finished it. The engine
// and its threads must still exist then.
TEST_F(ServerDrainTest, TheEngineOutlivesASearchWhoseStreamHasEnded) {
  Set(settings_.drain_ms, "0");
  Serve();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {1, 2}, std::string(50000, 'x')), HasCode(grpc::StatusCode::OK));
  script_->deaf_searches = true;
  script_->search_gate.Close();
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  pb::SearchRequest request = SearchFor("c", {1, 0});
  request.set_with_payload(true);  // the reply workers make this answer
  stream->Write(request);
  script_->search_gate.AwaitArrivals(1);
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  EXPECT_FALSE(stream->Finish().ok());
  EXPECT_NE(server_->state().core(), nullptr);
  script_->search_gate.Open();
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  EXPECT_EQ(server_->state().core(), nullptr);
  server_ = nullptr;
}

}  // namespace
}  // namespace nearfield::server
