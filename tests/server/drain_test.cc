// Tests of the end of a server with calls in flight.
#include <future>
#include <string>
#include <thread>

#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class ServerDrainTest : public ServerFixture {
 protected:
  static void ExpectEndedByTheServer(const grpc::Status& status,
                                     const grpc::ClientContext& context) {
    EXPECT_THAT(status, HasCode(kUnavailable));
    EXPECT_EQ(Trailer(context, "grpc-retry-pushback-ms"), "1000");
    EXPECT_TRUE(Trailer(context, "nearfield-request-id").has_value());
  }
};

// Regression: gRPC cancelled the remaining calls, and its statuses lacked the metadata that every
// error promises.
TEST_F(ServerDrainTest, AfterTheDrainTimeWhatIsLeftIsUnavailableWithItsMetadata) {
  Set(settings_.drain_ms, "20");
  ServeRows();
  script_->search_gate.Close();
  grpc::ClientContext context;
  auto search = std::async(std::launch::async, [&] {
    return Call(&Retrieval::Search, SearchFor("c", {1, 0}), nullptr, &context);
  });
  script_->search_gate.AwaitArrivals(1);
  UploadCall upload(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(upload.Read());
  SearchStreamCall idle_stream(*retrieval_);
  Drain();
  ExpectEndedByTheServer(search.get(), context);
  ExpectEndedByTheServer(upload.Finish(), upload.context);
  ExpectEndedByTheServer(idle_stream.Finish(), idle_stream.context);
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
    return Call(&Retrieval::Search, request, nullptr, &context);
  });
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() > 0; }));
  Drain();
  ExpectEndedByTheServer(search.get(), context);
}

// Regression: an upload with a silent client also delayed the end.
TEST_F(ServerDrainTest, ASilentUploadEndsSoonAfterTheDrainBegins) {
  Set(settings_.drain_ms, "86400000");
  Set(settings_.upload_idle_ms, "3000");
  ServeRows();
  UploadCall upload(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(upload.Read());
  Drain();
  const grpc::Status status = upload.Finish();
  EXPECT_THAT(status.error_message(), HasSubstr("the server is draining"));
  ExpectEndedByTheServer(status, upload.context);
}

// Regression: gRPC cancelled calls that arrived after its shutdown had begun.
TEST_F(ServerDrainTest, ACallThatArrivesAtTheEndIsUnavailable) {
  for (int round = 0; round < 10; ++round) {
    Serve();
    CallOk(&Retrieval::GetLimits);  // connects
    auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
    grpc::Status status;
    while (status.ok()) status = Call(&Retrieval::GetLimits, {});
    EXPECT_THAT(status, HasCode(kUnavailable));
    EXPECT_EQ(drained.get(), ExitCode::kClean);
    server_ = nullptr;
  }
}

// A watch begins before its collection exists, and outlives it.
TEST_F(ServerDrainTest, AHealthWatchFollowsACollectionFromBeforeItIsCreatedToTheDrain) {
  using State = grpc::health::v1::HealthCheckResponse;
  Serve();
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, FromText("service: 'nearfield.v1.Collection/c'"));
  const auto next = [&watch] {
    State response;
    return watch->Read(&response) ? response.status() : State::UNKNOWN;
  };
  EXPECT_EQ(next(), State::SERVICE_UNKNOWN);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(CreateCollection("c"));
    EXPECT_EQ(next(), State::SERVING);
    ASSERT_OK(Call(&Admin::DropCollection, Named("c")));
    EXPECT_EQ(next(), State::SERVICE_UNKNOWN);
  }
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  EXPECT_EQ(next(), State::NOT_SERVING);
  EXPECT_EQ(next(), State::UNKNOWN);  // the end of the watch
  EXPECT_THAT(watch->Finish(), HasCode(kUnavailable));
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  server_ = nullptr;
}

// A stream ends when it is cancelled; its search ends when the engine has finished it. The engine
// and its threads must still exist then.
TEST_F(ServerDrainTest, TheEngineOutlivesASearchWhoseStreamHasEnded) {
  Set(settings_.drain_ms, "0");
  ServeEmpty();
  ASSERT_OK(UploadRows("c", {1, 2}, std::string(50000, 'x')));
  script_->deaf_searches = true;
  script_->search_gate.Close();
  pb::SearchRequest request = SearchFor("c", {1, 0});
  request.set_with_payload(true);  // the reply workers make this answer
  SearchStreamCall stream(*retrieval_, {request});
  script_->search_gate.AwaitArrivals(1);
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  EXPECT_FALSE(stream.Finish().ok());
  EXPECT_NE(server_->state().core(), nullptr);
  script_->search_gate.Open();
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  EXPECT_EQ(server_->state().core(), nullptr);
  server_ = nullptr;
}

}  // namespace
}  // namespace nearfield::server
