// Tests of aliases, snapshots and compaction over a real channel.
#include <filesystem>
#include <string>

#include "server/store/file.h"
#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

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
    return Call(&Admin::SetAlias, request, response);
  }
  grpc::Status DropAlias(const std::string& alias, pb::DropAliasResponse* response = nullptr) {
    pb::DropAliasRequest request;
    request.set_alias(alias);
    return Call(&Admin::DropAlias, request, response);
  }
  pb::CollectionInfo Get(const std::string& name) {
    return CallOk(&Admin::GetCollection, Named(name)).collection();
  }
  grpc::Status CreateSnapshot(const std::string& name,
                              pb::CreateSnapshotResponse* response = nullptr) {
    return Call(&Admin::CreateSnapshot, Named(name), response);
  }
  grpc::Status DeleteSnapshot(const std::string& name,
                              pb::DeleteSnapshotResponse* response = nullptr) {
    return Call(&Admin::DeleteSnapshot, Named(name), response);
  }
  grpc::Status Compact(const std::string& collection, pb::CompactResponse* response = nullptr) {
    return Call(&Admin::Compact, Of(collection), response);
  }
  // Serves a stored collection "c" with the rows 1 .. 10 of which 7 is deleted.
  void ServeTenRowsLessOne() {
    ServeDurably();
    ASSERT_OK(CreateCollection("c"));
    ASSERT_OK(UploadRows("c", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    ASSERT_OK(Call(&Ingest::Delete, FromText("collection: 'c' ids { numbers: 7 }")));
  }

  const store::TempDir dir_;
};

TEST_F(AdminCallsTest, EveryCallTakesAnAlias) {
  ServeEmpty();
  pb::SetAliasResponse set;
  ASSERT_OK(SetAlias("live", "c", &set));
  EXPECT_EQ(set.collection().name(), "c");
  EXPECT_THAT(set.collection().aliases(), ElementsAre("live"));
  EXPECT_EQ(set.collection_before(), "");
  ASSERT_OK(UploadRows("live", {1, 2, 3}));
  EXPECT_EQ(RowsCount("live"), 3u);
  const auto found = CallOk(&Retrieval::Search, SearchFor("live", {1, 0}));
  EXPECT_EQ(found.results(0).scores_size(), 3);
  const FromText second("collection: 'live' ids { numbers: 2 }");
  EXPECT_EQ(CallOk(&Retrieval::Fetch, second).ids().numbers_size(), 1);
  EXPECT_EQ(CallOk(&Ingest::Delete, second).rows_deleted(), 1u);
  const FromText verify("collection: 'live' query { vector { values: [1, 0] } }");
  EXPECT_TRUE(CallOk(&Admin::Verify, verify).equal());
  EXPECT_OK(Compact("live"));
  EXPECT_EQ(Get("live").name(), "c");
  EXPECT_THAT(Get("c").aliases(), ElementsAre("live"));
}

TEST_F(AdminCallsTest, AliasesMoveAndAreRefusedAsTheContractSays) {
  Serve();
  ASSERT_OK(CreateCollection("a"));
  ASSERT_OK(CreateCollection("b"));
  ASSERT_OK(UploadRows("b", {1}));
  ASSERT_OK(SetAlias("x", "a"));
  ASSERT_OK(SetAlias("live", "a"));
  pb::SetAliasResponse moved;
  ASSERT_OK(SetAlias("live", "b", &moved));
  EXPECT_EQ(moved.collection_before(), "a");
  EXPECT_THAT(LogLines(),
              Contains(HasSubstr(R"("alias":"live","collection":"b","collection_before":"a")")));
  EXPECT_EQ(moved.collection().rows_count(), 1u);
  const auto list = CallOk(&Admin::ListCollections);
  ASSERT_EQ(list.collections_size(), 2);
  EXPECT_THAT(list.collections(0).aliases(), ElementsAre("x"));
  EXPECT_THAT(list.collections(1).aliases(), ElementsAre("live"));
  EXPECT_THAT(SetAlias("a/b", "a"), RefusedWith(kInvalidArgument, "alias: \"a/b\""));
  EXPECT_THAT(SetAlias("y", "gone"), HasCode(kNotFound));
  EXPECT_THAT(SetAlias("a", "b"), HasCode(kAlreadyExists));
  EXPECT_THAT(CreateCollection("live"), HasCode(kAlreadyExists));
  EXPECT_THAT(Call(&Admin::DropCollection, Named("live")),
              RefusedWith(kFailedPrecondition, "alias of the collection \"b\""));
  pb::DropAliasResponse dropped;
  ASSERT_OK(DropAlias("live", &dropped));
  EXPECT_EQ(dropped.collection(), "b");
  EXPECT_THAT(DropAlias("live"), HasCode(kNotFound));
  EXPECT_THAT(DropAlias("a"), HasCode(kNotFound));
  ASSERT_OK(Call(&Admin::DropCollection, Named("a")));
  EXPECT_THAT(DropAlias("x"), HasCode(kNotFound)) << "it went with a";
}

TEST_F(AdminCallsTest, SnapshotsAreMadeAndListed) {
  ServeDurably();
  ASSERT_OK(CreateCollection("c"));
  ASSERT_OK(UploadRows("c", {1, 2, 3}));
  pb::CreateSnapshotResponse made;
  ASSERT_OK(CreateSnapshot("b", &made));
  EXPECT_EQ(made.snapshot().name(), "b");
  EXPECT_EQ(made.snapshot().files_count(), 2u);
  EXPECT_GT(made.snapshot().bytes(), 0u);
  EXPECT_GT(made.snapshot().created_unix_s(), 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "snapshots/b/MANIFEST"));
  ASSERT_OK(CreateSnapshot("a"));
  EXPECT_THAT(LogLines(), Contains(HasSubstr("\"snapshot made\",\"name\":\"a\"")));
  EXPECT_THAT(CreateSnapshot("a"), HasCode(kAlreadyExists));
  EXPECT_THAT(CreateSnapshot("d"), RefusedWith(kResourceExhausted, "snapshots_max is 2"));
  for (const std::string name : {"../c", "a/b", "..", "", "x.partial"}) {
    EXPECT_THAT(CreateSnapshot(name), HasCode(kInvalidArgument)) << name;
  }
  const auto list = CallOk(&Admin::ListSnapshots);
  ASSERT_EQ(list.snapshots_size(), 2);
  EXPECT_EQ(list.snapshots(0).name(), "a");
  EXPECT_EQ(list.snapshots(1).name(), "b");
  EXPECT_EQ(list.snapshots(1).error(), "");
}

TEST_F(AdminCallsTest, ASnapshotIsDeletedOnceAndItsPlaceIsFree) {
  ServeDurably();
  ASSERT_OK(CreateCollection("c"));
  ASSERT_OK(UploadRows("c", {1, 2, 3}));
  for (const char* const name : {"a", "b"}) ASSERT_OK(CreateSnapshot(name));
  EXPECT_THAT(CreateSnapshot("c"), RefusedWith(kResourceExhausted, "delete one first"));
  pb::DeleteSnapshotResponse deleted;
  ASSERT_OK(DeleteSnapshot("a", &deleted));
  EXPECT_EQ(deleted.snapshot().name(), "a");
  EXPECT_EQ(deleted.snapshot().files_count(), 2u);
  EXPECT_GT(deleted.snapshot().bytes(), 0u);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "snapshots/a"));
  EXPECT_THAT(LogLines(), Contains(HasSubstr("\"snapshot deleted\",\"name\":\"a\"")));
  EXPECT_THAT(DeleteSnapshot("a"), RefusedWith(kNotFound, "there is no snapshot \"a\""));
  ASSERT_OK(CreateSnapshot("c"));
  const auto list = CallOk(&Admin::ListSnapshots);
  ASSERT_EQ(list.snapshots_size(), 2);
  EXPECT_EQ(list.snapshots(0).name(), "b");
  EXPECT_EQ(RowsCount("c"), 3u);
}

// A name of a client never becomes a path, and never names what is no snapshot.
TEST_F(AdminCallsTest, OnlyASnapshotIsDeletedAndOnlyByItsName) {
  ServeDurably();
  ASSERT_OK(CreateCollection("c"));
  ASSERT_OK(CreateSnapshot("a"));
  std::filesystem::create_directory(dir_ / "snapshots/mine");
  std::filesystem::create_directory(dir_ / "snapshots/a.partial");
  for (const std::string name :
       {"../data", "..", ".", "", "/tmp", "a/", "x.partial", ".deleted-a"}) {
    EXPECT_THAT(DeleteSnapshot(name), HasCode(kInvalidArgument)) << name;
  }
  EXPECT_THAT(DeleteSnapshot("mine"), HasCode(kNotFound));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "snapshots/mine"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "snapshots/a/MANIFEST"));
  {
    const auto restore = store::Directory::Open(dir_ / "snapshots/a");
    ASSERT_OK(restore);
    ASSERT_OK((*restore)->LockShared());
    EXPECT_THAT(DeleteSnapshot("a"), RefusedWith(kFailedPrecondition, "restoring"));
  }
  EXPECT_OK(DeleteSnapshot("a"));
}

// A damaged list of files must not keep a snapshot's place for ever.
TEST_F(AdminCallsTest, ADamagedSnapshotCanBeDeleted) {
  ServeDurably();
  ASSERT_OK(CreateCollection("c"));
  ASSERT_OK(CreateSnapshot("a"));
  store::FlipByte(dir_ / "snapshots/a/MANIFEST", 3);
  ASSERT_NE(CallOk(&Admin::ListSnapshots).snapshots(0).error(), "");
  EXPECT_OK(DeleteSnapshot("a"));
  EXPECT_THAT(CallOk(&Admin::ListSnapshots).snapshots(), IsEmpty());
}

TEST_F(AdminCallsTest, AStartFinishesTheDeletionOfASnapshot) {
  std::filesystem::create_directories(dir_ / "snapshots/.deleted-a");
  std::filesystem::create_directory(dir_ / "snapshots/b");
  ServeDurably();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "snapshots/.deleted-a"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "snapshots/b"));
  EXPECT_THAT(LogLines(), Contains(HasSubstr("interrupted deletions of snapshots")));
}

TEST_F(AdminCallsTest, WithoutAPlaceNoSnapshotAndTheMessageNamesTheSetting) {
  Set(settings_.data_dir, dir_ / "data");
  Serve();
  EXPECT_THAT(CreateSnapshot("a"), RefusedWith(kFailedPrecondition, "snapshot_dir"));
  EXPECT_THAT(Call(&Admin::ListSnapshots, {}), RefusedWith(kFailedPrecondition, "snapshot_dir"));
  EXPECT_THAT(DeleteSnapshot("a"), RefusedWith(kFailedPrecondition, "snapshot_dir"));
}

TEST_F(AdminCallsTest, NothingKeptIsNothingToCopy) {
  Set(settings_.snapshot_dir, dir_ / "snapshots");
  Serve();
  EXPECT_THAT(CreateSnapshot("a"), RefusedWith(kFailedPrecondition, "data_dir is none"));
  EXPECT_THAT(CallOk(&Admin::ListSnapshots).snapshots(), IsEmpty());
}

TEST_F(AdminCallsTest, CompactGivesBackTheDiskOfDeletedRows) {
  ServeTenRowsLessOne();
  pb::CompactResponse given;
  ASSERT_OK(Compact("c", &given));
  EXPECT_EQ(given.stored_rows_given_back(), 1u);
  EXPECT_EQ(Get("c").epoch(), 2u);
  EXPECT_EQ(Get("c").rows_count(), 9u);
  EXPECT_THAT(Compact("gone"), HasCode(kNotFound));
}

// Only the log and a health check of the collection reported that its stored rows were unreadable.
TEST_F(AdminCallsTest, ACollectionCountsTheReadsThatFailed) {
  ServeTenRowsLessOne();
  EXPECT_EQ(Get("c").read_failures_count(), 0u);
  for (const auto& file : std::filesystem::recursive_directory_iterator(dir_ / "data")) {
    if (file.path().extension() != ".seg") continue;
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) / 2);
  }
  for (uint64_t count = 1; count <= 2; ++count) {
    ASSERT_THAT(Compact("c"), HasCode(kDataLoss));
    EXPECT_EQ(Get("c").read_failures_count(), count);
  }
  EXPECT_EQ(RowsCount(), 9u);
}

}  // namespace
}  // namespace nearfield::server
