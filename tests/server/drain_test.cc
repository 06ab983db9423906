// The end of a server with calls in flight.
#include <future>
#include <string>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

class DrainTest : public ServerFixture {};

TEST_F(DrainTest, AfterTheDrainTimeWhatIsLeftIsCancelled) {
  Set(settings_.drain_ms, "20");
  ServeRows();
  script_->search_gate.Close();
  auto search = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    pb::SearchResponse response;
    return retrieval_->Search(&context, SearchFor("c", {1, 0}), &response);
  });
  script_->search_gate.AwaitArrivals(1);
  grpc::ClientContext upload_context;
  const auto upload = ingest_->Upload(&upload_context);
  upload->Write(Begin("c", 1));
  pb::UploadResponse response;
  ASSERT_TRUE(upload->Read(&response));
  Drain();
  EXPECT_FALSE(search.get().ok());
  EXPECT_FALSE(upload->Finish().ok());
  EXPECT_EQ(script_->cancelled_searches, 1);
  EXPECT_EQ(script_->uploads_open, 0);
}

// A stream ends with its cancellation, its search when the engine is done with it: the engine and
// the threads below it must still be there.
TEST_F(DrainTest, TheEngineOutlivesASearchWhoseStreamHasEnded) {
  Set(settings_.drain_ms, "0");
  Serve();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {1, 2}, std::string(50000, 'x')), HasCode(grpc::StatusCode::OK));
  script_->deaf_searches = true;
  script_->search_gate.Close();
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchStream(&context);
  pb::SearchRequest request = SearchFor("c", {1, 0});
  request.set_with_payload(true);  // an answer that the reply workers make
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
