// Tests of Ingest.Delete over a real channel.
#include <string>

#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class IngestDeleteTest : public ServerFixture {};

TEST_F(IngestDeleteTest, DeleteRemovesRowsAndRefusesWhatTheContractSays) {
  Set(settings_.fetch_ids_max, "3");
  ServeEmpty();
  ASSERT_OK(UploadRows("c", {1, 2, 3}));
  pb::DeleteResponse response;
  const auto remove = [&](const std::string& fields) {
    return Call(&Ingest::Delete, FromText("collection: 'c' " + fields), &response);
  };
  ASSERT_OK(remove("ids { numbers: [1, 3, 9] }"));
  EXPECT_EQ(response.rows_deleted(), 2u);
  EXPECT_EQ(response.epoch(), 2u);
  EXPECT_EQ(RowsCount(), 1u);
  ASSERT_OK(remove("ids { numbers: 9 }"));
  EXPECT_EQ(response.rows_deleted(), 0u);
  EXPECT_EQ(response.epoch(), 2u) << "nothing was deleted, so the epoch stays";
  EXPECT_THAT(remove(""), RefusedWith(kInvalidArgument, "ids = 0 ids, must be 1 .. 3"));
  EXPECT_THAT(remove("ids { numbers: [0, 1, 2, 3] }"), HasCode(kInvalidArgument));
  EXPECT_THAT(remove("ids { texts: '1' }"), HasCode(kInvalidArgument));
  EXPECT_THAT(remove("collection: 'x'"), HasCode(kNotFound));
  EXPECT_THAT(remove("filter_args { ids {} }"),
              RefusedWith(kInvalidArgument, "filter_args: 1 given without filter_text"));
  EXPECT_THAT(remove("filter_args { ids {} } ids { numbers: 1 }"),
              RefusedWith(kInvalidArgument, "filter_text: given with 1 ids"));
}

TEST_F(IngestDeleteTest, DeletesThatWaitAreBoundedAndHoldUpNoUpload) {
  Set(settings_.uploads_max, "1");
  ServeEmpty();
  testing::Gate gate;
  gate.Close();
  Core* core = server_->state().core();
  while (core->deletes.Post([&] { gate.Pass(); }).ok()) {
  }
  EXPECT_OK(UploadRows("c", {1, 2, 3}));
  ExpectRefusedWithHint(&Ingest::Delete, FromText("collection: 'c' ids { numbers: 1 }"),
                        RefusedWith(kResourceExhausted, "too many deletes"));
  gate.Open();
  Drain();
}

}  // namespace
}  // namespace nearfield::server
