// Tests of Ingest.Delete over a real channel.
#include <functional>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

class IngestDeleteTest : public ServerFixture {};

TEST_F(IngestDeleteTest, DeleteRemovesRowsAndRefusesWhatTheContractSays) {
  Set(settings_.fetch_ids_max, "3");
  Serve();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {1, 2, 3}), HasCode(grpc::StatusCode::OK));
  pb::DeleteResponse response;
  const auto remove = [&](const std::function<void(pb::DeleteRequest&)>& change) {
    pb::DeleteRequest request;
    request.set_collection("c");
    change(request);
    grpc::ClientContext context;
    return ingest_->Delete(&context, request, &response);
  };
  ASSERT_THAT(remove([](auto& r) {
                for (const uint64_t id : {1u, 3u, 9u}) r.mutable_ids()->add_numbers(id);
              }),
              HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(response.rows_deleted(), 2u);
  EXPECT_EQ(response.epoch(), 2u);
  {
    pb::CountRequest count;
    count.set_collection("c");
    pb::CountResponse counted;
    grpc::ClientContext context;
    ASSERT_THAT(retrieval_->Count(&context, count, &counted), HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(counted.rows_count(), 1u);
  }
  ASSERT_THAT(remove([](auto& r) { r.mutable_ids()->add_numbers(9); }),
              HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(response.rows_deleted(), 0u);
  EXPECT_EQ(response.epoch(), 2u) << "nothing was deleted, so the epoch stays";
  EXPECT_THAT(remove([](auto&) {}),
              HasCodeAndMessage(kInvalid, HasSubstr("ids = 0 ids, must be 1 .. 3")));
  EXPECT_THAT(remove([](auto& r) {
                for (uint64_t id = 0; id < 4; ++id) r.mutable_ids()->add_numbers(id);
              }),
              HasCode(kInvalid));
  EXPECT_THAT(remove([](auto& r) { r.mutable_ids()->add_texts("1"); }), HasCode(kInvalid));
  EXPECT_THAT(remove([](auto& r) { r.set_collection("x"); }), HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(remove([](auto& r) { r.mutable_filter(); }),
              HasCodeAndMessage(kInvalid, HasSubstr("filter: no condition is set")));
  EXPECT_THAT(remove([](auto& r) {
                r.mutable_filter();
                r.mutable_ids()->add_numbers(1);
              }),
              HasCodeAndMessage(kInvalid, HasSubstr("filter: given with 1 ids")));
}

TEST_F(IngestDeleteTest, DeletesThatWaitAreBoundedAndHoldUpNoUpload) {
  Set(settings_.uploads_max, "1");
  Serve();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  testing::Gate gate;
  gate.Close();
  Core* core = server_->state().core();
  while (core->deletes.Post([&] { gate.Pass(); }).ok()) {
  }
  EXPECT_THAT(UploadRows("c", {1, 2, 3}), HasCode(grpc::StatusCode::OK));
  pb::DeleteRequest request;
  request.set_collection("c");
  request.mutable_ids()->add_numbers(1);
  pb::DeleteResponse response;
  {
    grpc::ClientContext context;
    EXPECT_THAT(
        ingest_->Delete(&context, request, &response),
        HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED, HasSubstr("too many deletes")));
    EXPECT_TRUE(Trailer(context, "retry-after-ms").has_value());
  }
  gate.Open();
  Drain();
}

}  // namespace
}  // namespace nearfield::server
