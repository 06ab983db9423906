// Tests Open: which directories it refuses, and which files it removes.
#include <sqlite3.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "server/store/store.h"
#include "tests/server/store/failing_calls.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

// A closed store with two committed segments, 2 and 3, of collection 1, and another collection with
// one segment.
class StoreOpenTest : public ::testing::Test {
 protected:
  StoreOpenTest() : tested_(dir_ / "data") {
    tested_.Create("a", 1);
    EXPECT_OK(tested_.Upload("a", 1));
    EXPECT_OK(tested_.Upload("a", 2));
    other_ = tested_.Create("b", 2);
    EXPECT_OK(tested_.Upload("b", 1));
    tested_.Close();
  }

  absl::Status OpenStatus() const { return Store::Open(tested_.Options()).status(); }
  void Sql(const char* sql) const {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open((dir_ / "data/catalog.db").c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(connection);
  }

  // Checks that the collection of the segment can only be dropped, and that the other one is
  // intact.
  void ExpectOneDamaged(const std::string& segment) {
    const auto damaged = FailsWith(kDataLoss, segment);
    ASSERT_OK_AND_ASSIGN(auto opened, Store::Open(tested_.Options()));
    Store& store = *opened;
    const int64_t id = store.Collections().at(0).id;
    const auto ignore = [](const StoredBlock&) { return absl::OkStatus(); };
    EXPECT_THAT(store.Load(id, ignore, {}), damaged);
    EXPECT_THAT(store.BeginUpload(id, {}), damaged);
    EXPECT_THAT(store.CommitDelete(id, 9, IdColumn::OfNumbers({1})), damaged);
    EXPECT_THAT(store.Compact(id, {}), damaged);
    EXPECT_THAT(store.Verify(), damaged);
    EXPECT_THAT(store.Snapshot(dir_ / "snapshot"), damaged);
    EXPECT_OK(store.Load(other_, ignore, {}));
    EXPECT_OK(store.DropCollection(id));
    EXPECT_OK(store.Verify());
    EXPECT_OK(store.Load(other_, ignore, {}));
  }

  const TempDir dir_;
  ModelStore tested_;
  int64_t other_ = 0;
};

TEST_F(StoreOpenTest, TheSetUpIsRight) {
  ASSERT_TRUE(std::filesystem::exists(tested_.SegmentPath(2)));
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreOpenTest, OneProcessAtATime) {
  tested_.Reopen();
  EXPECT_THAT(OpenStatus(), FailsWith(kFailedPrecondition, dir_ / "data", "in use"));
  tested_.Close();
  EXPECT_OK(OpenStatus());
}

// A commit may be in the log that its process did not sync before it died. A full disk has no room
// for the commit that would sync it.
TEST_F(StoreOpenTest, AStartOnAFullDiskSyncsTheLogThatItReads) {
  tested_.Reopen();
  ASSERT_OK(tested_.Delete("b", 1));
  std::filesystem::copy(dir_ / "data", dir_ / "copy");  // as a kill leaves it
  StoreOptions options = tested_.Options();
  options.dir = dir_ / "copy";
  bool synced = false;
  const FailingCalls failing([&](const FileCall& call) {
    if (call.path.find("/copy/") == std::string::npos) return 0;
    const bool log = std::filesystem::path(call.path).filename() == "catalog.db-wal";
    synced = synced || (log && call.kind == FileCall::Kind::kSync);
    return call.grows ? ENOSPC : 0;
  });
  const auto store = Store::Open(options);  // its end syncs the log too
  EXPECT_OK(store);
  EXPECT_TRUE(synced);
}

TEST_F(StoreOpenTest, ANewerFormatIsRefusedWithBothVersions) {
  Sql("PRAGMA user_version=8");
  EXPECT_THAT(OpenStatus(), FailsWith(kFailedPrecondition, "catalog format 8", "formats 1 .. 7"));
}

TEST_F(StoreOpenTest, ADirectoryOfAnEarlierFormatIsBroughtUpToDate) {
  for (const int format : {6, 5, 4, 3, 2, 1}) {
    Sql("DROP TABLE patches; DROP TABLE update_tokens");
    if (format < 6) Sql("DROP TABLE embedding_models");
    if (format < 4) Sql("DROP TABLE device_counts");
    if (format < 3) Sql("DROP TABLE owners");
    if (format == 1) Sql("DROP TABLE upload_results");
    Sql(absl::StrCat("UPDATE facts SET format=", format).c_str());
    Sql(absl::StrCat("PRAGMA user_version=", format).c_str());
    for (int start = 0; start < 2; ++start) {
      tested_.Reopen();
      EXPECT_TRUE(tested_.Same());
      EXPECT_OK(tested_.store().Verify());
      ASSERT_OK(tested_.Upload("a", 10 * format + start));
    }
    EXPECT_TRUE(tested_.Same());
    tested_.Close();
  }
}

TEST_F(StoreOpenTest, TheDevicesOfACollectionStayUntilItsDrop) {
  tested_.Reopen();
  for (const int32_t devices : {3, 0}) {
    ASSERT_OK_AND_ASSIGN(const int64_t id, tested_.store().CreateCollection(
                                               "spread", {.dim = 1, .devices = devices}, ""));
    tested_.Reopen();
    for (const StoredCollection& stored : tested_.store().Collections()) {
      EXPECT_EQ(stored.spec.devices, stored.name == "spread" ? devices : 0);
    }
    EXPECT_OK(tested_.store().Verify());
    ASSERT_OK(tested_.store().DropCollection(id));
    EXPECT_OK(tested_.store().Verify());
  }
}

TEST_F(StoreOpenTest, TheEmbeddingModelOfACollectionStaysUntilItsDrop) {
  tested_.Reopen();
  for (const char* const model : {"first", "second", ""}) {
    ASSERT_OK_AND_ASSIGN(const int64_t id, tested_.store().CreateCollection(
                                               "texts", {.dim = 1, .embedding_model = model}, ""));
    for (int start = 0; start < 2; ++start) {
      for (const StoredCollection& stored : tested_.store().Collections()) {
        EXPECT_EQ(stored.spec.embedding_model, stored.name == "texts" ? model : "");
      }
      tested_.Reopen();
    }
    EXPECT_OK(tested_.store().Verify());
    ASSERT_OK(tested_.store().DropCollection(id));
    EXPECT_OK(tested_.store().Verify());
  }
}

TEST_F(StoreOpenTest, TheOwnerOfACollectionStaysUntilItsDrop) {
  const auto owner_of = [&](const std::string& name) {
    for (const StoredCollection& stored : tested_.store().Collections()) {
      if (stored.name == name) return stored.owner;
    }
    return std::string("no such collection");
  };
  tested_.Reopen();
  int64_t id = 0;
  for (const char* const principal : {"first", "second", ""}) {
    ASSERT_OK_AND_ASSIGN(
        id, tested_.store().CreateCollection("owned", {.dim = 1}, "", nullptr, principal));
    EXPECT_EQ(owner_of("owned"), principal);
    tested_.Reopen();
    EXPECT_EQ(owner_of("owned"), principal);
    EXPECT_EQ(owner_of("a"), "");
    EXPECT_OK(tested_.store().Verify());
    ASSERT_OK(tested_.store().DropCollection(id));
  }
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreOpenTest, AMissingSegmentIsNamed) {
  std::filesystem::remove(tested_.SegmentPath(3));
  ExpectOneDamaged("0003.seg");
}

TEST_F(StoreOpenTest, ACheckTellsOfAllThatIsWrong) {
  std::filesystem::remove(tested_.SegmentPath(2));
  const std::string of_other = tested_.SegmentPath(6);  // of collection 5
  FlipByte(of_other, static_cast<int64_t>(std::filesystem::file_size(of_other)) - 1);
  ASSERT_OK_AND_ASSIGN(const auto opened, Store::Open(tested_.Options()));
  EXPECT_THAT(opened->Verify(), FailsWith(kDataLoss, tested_.SegmentPath(2), of_other));
}

TEST_F(StoreOpenTest, SwappedSegmentsAreSeen) {
  std::filesystem::rename(tested_.SegmentPath(2), dir_ / "kept");
  std::filesystem::copy(tested_.SegmentPath(3), tested_.SegmentPath(2));
  ExpectOneDamaged("0002.seg");
}

TEST_F(StoreOpenTest, AShorterSegmentIsSeen) {
  const auto size = std::filesystem::file_size(tested_.SegmentPath(2));
  std::filesystem::resize_file(tested_.SegmentPath(2), size - 1);
  ExpectOneDamaged("0002.seg");
}

TEST_F(StoreOpenTest, SegmentsWithoutACatalogAreNotTakenForGarbage) {
  std::filesystem::remove(dir_ / "data/catalog.db");
  EXPECT_THAT(OpenStatus(), FailsWith(kFailedPrecondition, "catalog.db"));
  EXPECT_TRUE(std::filesystem::exists(tested_.SegmentPath(2)));
}

TEST_F(StoreOpenTest, AnOlderCatalogIsSeen) {
  std::filesystem::copy(dir_ / "data/catalog.db", dir_ / "older");
  tested_.Reopen();
  ASSERT_OK(tested_.Upload("a", 3));
  tested_.Close();
  std::filesystem::copy_file(dir_ / "older", dir_ / "data/catalog.db",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(OpenStatus(), FailsWith(kDataLoss, "acknowledged"));
}

TEST_F(StoreOpenTest, ARowChangedByHandBreaksTheDigest) {
  Sql("UPDATE segments SET rows=rows-1 WHERE id=2");
  EXPECT_THAT(OpenStatus(), FailsWith(kDataLoss, "catalog.db"));
}

TEST_F(StoreOpenTest, ARemovedCommitBreaksTheChain) {
  Sql("DELETE FROM commits WHERE id=3");
  EXPECT_THAT(OpenStatus(), FailsWith(kDataLoss, "chain"));
}

TEST_F(StoreOpenTest, TheParentDirectoryMustBeThere) {
  StoreOptions options = tested_.Options();
  options.dir = dir_ / "no/such";
  EXPECT_THAT(Store::Open(options), FailsWith(kNotFound, "no/such"));
}

}  // namespace
}  // namespace nearfield::store
