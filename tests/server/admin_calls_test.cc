// Tests of aliases, snapshots and compaction over a real channel.
#include <filesystem>
#include <functional>
#include <string>

#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
constexpr auto kPrecondition = grpc::StatusCode::FAILED_PRECONDITION;

class AdminCallsTest : public ServerFixture {
 protected:
  // Serves with a data directory and a directory for snapshots.
  void ServeDurably() {
    Set(settings_.data_dir, dir_ / "data");
    Set(settings_.snapshot_dir, dir_ / "snapshots");
    Set(settings_.snapshots_max, "2");
    Serve();
  }
  grpc::Status SetAlias(const std::string& alias, const std::string& collection,
                        pb::SetAliasResponse* response = nullptr) {
    pb::SetAliasRequest request;
    request.set_alias(alias);
    request.set_collection(collection);
    pb::SetAliasResponse own;
    grpc::ClientContext context;
    return admin_->SetAlias(&context, request, response == nullptr ? &own : response);
  }
  grpc::Status DropAlias(const std::string& alias) {
    pb::DropAliasRequest request;
    request.set_alias(alias);
    pb::DropAliasResponse response;
    grpc::ClientContext context;
    const grpc::Status status = admin_->DropAlias(&context, request, &response);
    alias_was_of_ = response.collection();
    return status;
  }
  grpc::Status DropCollection(const std::string& name) {
    pb::DropCollectionRequest request;
    request.set_name(name);
    pb::DropCollectionResponse response;
    grpc::ClientContext context;
    return admin_->DropCollection(&context, request, &response);
  }
  pb::CollectionInfo Get(const std::string& name) {
    pb::GetCollectionRequest request;
    request.set_name(name);
    pb::GetCollectionResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(admin_->GetCollection(&context, request, &response), HasCode(grpc::StatusCode::OK));
    return response.collection();
  }
  grpc::Status CreateSnapshot(const std::string& name,
                              pb::CreateSnapshotResponse* response = nullptr) {
    pb::CreateSnapshotRequest request;
    request.set_name(name);
    pb::CreateSnapshotResponse own;
    grpc::ClientContext context;
    return admin_->CreateSnapshot(&context, request, response == nullptr ? &own : response);
  }
  grpc::Status Delete(const std::string& collection, uint64_t id) {
    pb::DeleteRequest request;
    request.set_collection(collection);
    request.mutable_ids()->add_numbers(id);
    pb::DeleteResponse response;
    grpc::ClientContext context;
    return ingest_->Delete(&context, request, &response);
  }
  grpc::Status Compact(const std::string& collection, pb::CompactResponse* response) {
    pb::CompactRequest request;
    request.set_collection(collection);
    grpc::ClientContext context;
    return admin_->Compact(&context, request, response);
  }
  uint64_t CountOf(const std::string& collection) {
    pb::CountRequest request;
    request.set_collection(collection);
    pb::CountResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(retrieval_->Count(&context, request, &response), HasCode(grpc::StatusCode::OK));
    return response.rows_count();
  }

  const store::TempDir dir_;
  std::string alias_was_of_;
};

TEST_F(AdminCallsTest, EveryCallTakesAnAlias) {
  Serve();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  pb::SetAliasResponse set;
  ASSERT_THAT(SetAlias("live", "c", &set), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(set.collection().name(), "c");
  EXPECT_THAT(set.collection().aliases(), ElementsAre("live"));
  EXPECT_EQ(set.collection_before(), "");
  ASSERT_THAT(UploadRows("live", {1, 2, 3}), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(CountOf("live"), 3u);
  pb::SearchResponse found;
  ASSERT_THAT(Search(SearchFor("live", {1, 0}), &found), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(found.results(0).scores_size(), 3);
  {
    pb::FetchRequest request;
    request.set_collection("live");
    request.mutable_ids()->add_numbers(2);
    pb::FetchResponse response;
    grpc::ClientContext context;
    ASSERT_THAT(retrieval_->Fetch(&context, request, &response), HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(response.ids().numbers_size(), 1);
  }
  {
    pb::DeleteRequest request;
    request.set_collection("live");
    request.mutable_ids()->add_numbers(2);
    pb::DeleteResponse response;
    grpc::ClientContext context;
    ASSERT_THAT(ingest_->Delete(&context, request, &response), HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(response.rows_deleted(), 1u);
  }
  {
    pb::VerifyRequest request;
    request.set_collection("live");
    request.mutable_query()->mutable_vector()->add_values(1);
    request.mutable_query()->mutable_vector()->add_values(0);
    pb::VerifyResponse response;
    grpc::ClientContext context;
    ASSERT_THAT(admin_->Verify(&context, request, &response), HasCode(grpc::StatusCode::OK));
    EXPECT_TRUE(response.equal());
  }
  pb::CompactResponse given;
  EXPECT_THAT(Compact("live", &given), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(Get("live").name(), "c");
  EXPECT_THAT(Get("c").aliases(), ElementsAre("live"));
}

TEST_F(AdminCallsTest, AliasesMoveAndAreRefusedAsTheContractSays) {
  Serve();
  ASSERT_THAT(CreateCollection("a"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(CreateCollection("b"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("b", {1}), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(SetAlias("x", "a"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(SetAlias("live", "a"), HasCode(grpc::StatusCode::OK));
  pb::SetAliasResponse moved;
  ASSERT_THAT(SetAlias("live", "b", &moved), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(moved.collection_before(), "a");
  EXPECT_THAT(
      LogLines(),
      ::testing::Contains(HasSubstr(R"("alias":"live","collection":"b","collection_before":"a")")));
  EXPECT_EQ(moved.collection().rows_count(), 1u);
  {
    pb::ListCollectionsResponse list;
    grpc::ClientContext context;
    ASSERT_THAT(admin_->ListCollections(&context, {}, &list), HasCode(grpc::StatusCode::OK));
    ASSERT_EQ(list.collections_size(), 2);
    EXPECT_THAT(list.collections(0).aliases(), ElementsAre("x"));
    EXPECT_THAT(list.collections(1).aliases(), ElementsAre("live"));
  }
  EXPECT_THAT(SetAlias("a/b", "a"), HasCodeAndMessage(kInvalid, HasSubstr("alias: \"a/b\"")));
  EXPECT_THAT(SetAlias("y", "gone"), HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(SetAlias("a", "b"), HasCode(grpc::StatusCode::ALREADY_EXISTS));
  EXPECT_THAT(CreateCollection("live"), HasCode(grpc::StatusCode::ALREADY_EXISTS));
  EXPECT_THAT(DropCollection("live"),
              HasCodeAndMessage(kPrecondition, HasSubstr("alias of the collection \"b\"")));
  ASSERT_THAT(DropAlias("live"), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(alias_was_of_, "b");
  EXPECT_THAT(DropAlias("live"), HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(DropAlias("a"), HasCode(grpc::StatusCode::NOT_FOUND));
  ASSERT_THAT(DropCollection("a"), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(DropAlias("x"), HasCode(grpc::StatusCode::NOT_FOUND)) << "it went with a";
}

TEST_F(AdminCallsTest, SnapshotsAreMadeAndListed) {
  ServeDurably();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {1, 2, 3}), HasCode(grpc::StatusCode::OK));
  pb::CreateSnapshotResponse made;
  ASSERT_THAT(CreateSnapshot("b", &made), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(made.snapshot().name(), "b");
  EXPECT_EQ(made.snapshot().files_count(), 2u);
  EXPECT_GT(made.snapshot().bytes(), 0u);
  EXPECT_GT(made.snapshot().created_unix_s(), 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "snapshots/b/MANIFEST"));
  ASSERT_THAT(CreateSnapshot("a"), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(LogLines(), ::testing::Contains(HasSubstr("\"snapshot made\",\"name\":\"a\"")));
  EXPECT_THAT(CreateSnapshot("a"), HasCode(grpc::StatusCode::ALREADY_EXISTS));
  EXPECT_THAT(CreateSnapshot("d"), HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                                     HasSubstr("snapshots_max is 2")));
  for (const std::string name : {"../c", "a/b", "..", "", "x.partial"}) {
    EXPECT_THAT(CreateSnapshot(name), HasCode(kInvalid)) << name;
  }
  pb::ListSnapshotsResponse list;
  grpc::ClientContext context;
  ASSERT_THAT(admin_->ListSnapshots(&context, {}, &list), HasCode(grpc::StatusCode::OK));
  ASSERT_EQ(list.snapshots_size(), 2);
  EXPECT_EQ(list.snapshots(0).name(), "a");
  EXPECT_EQ(list.snapshots(1).name(), "b");
  EXPECT_EQ(list.snapshots(1).error(), "");
}

TEST_F(AdminCallsTest, WithoutAPlaceNoSnapshotAndTheMessageNamesTheSetting) {
  Set(settings_.data_dir, dir_ / "data");
  Serve();
  EXPECT_THAT(CreateSnapshot("a"), HasCodeAndMessage(kPrecondition, HasSubstr("snapshot_dir")));
  pb::ListSnapshotsResponse list;
  grpc::ClientContext context;
  EXPECT_THAT(admin_->ListSnapshots(&context, {}, &list),
              HasCodeAndMessage(kPrecondition, HasSubstr("snapshot_dir")));
}

TEST_F(AdminCallsTest, NothingKeptIsNothingToCopy) {
  Set(settings_.snapshot_dir, dir_ / "snapshots");
  Serve();
  EXPECT_THAT(CreateSnapshot("a"), HasCodeAndMessage(kPrecondition, HasSubstr("data_dir is none")));
  pb::ListSnapshotsResponse list;
  grpc::ClientContext context;
  ASSERT_THAT(admin_->ListSnapshots(&context, {}, &list), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(list.snapshots(), IsEmpty());
}

TEST_F(AdminCallsTest, CompactGivesBackTheDiskOfDeletedRows) {
  ServeDurably();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(Delete("c", 7), HasCode(grpc::StatusCode::OK));
  pb::CompactResponse given;
  ASSERT_THAT(Compact("c", &given), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(given.stored_rows_given_back(), 1u);
  EXPECT_EQ(Get("c").epoch(), 2u);
  EXPECT_EQ(Get("c").rows_count(), 9u);
  EXPECT_THAT(Compact("gone", &given), HasCode(grpc::StatusCode::NOT_FOUND));
}

// Only the log and a health check of the collection reported that its stored rows were unreadable.
TEST_F(AdminCallsTest, ACollectionCountsTheReadsThatFailed) {
  ServeDurably();
  ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("c", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(Delete("c", 7), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(Get("c").read_failures_count(), 0u);
  for (const auto& file : std::filesystem::recursive_directory_iterator(dir_ / "data")) {
    if (file.path().extension() != ".seg") continue;
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) / 2);
  }
  pb::CompactResponse given;
  for (uint64_t count = 1; count <= 2; ++count) {
    ASSERT_THAT(Compact("c", &given), HasCode(grpc::StatusCode::DATA_LOSS));
    EXPECT_EQ(Get("c").read_failures_count(), count);
  }
  EXPECT_EQ(CountOf("c"), 9u);
}

}  // namespace
}  // namespace nearfield::server
