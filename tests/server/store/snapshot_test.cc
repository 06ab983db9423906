// Tests snapshots of a running store, and stores made from them.
#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/store/checksum.h"
#include "server/store/format.h"
#include "server/store/manifest.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

class StoreSnapshotTest : public ::testing::Test {
 protected:
  StoreSnapshotTest() : tested_(dir_ / "data") {
    tested_.Create("a", 1);
    for (int64_t number = 1; number <= 5; ++number) EXPECT_OK(tested_.Upload("a", number));
    EXPECT_OK(tested_.Delete("a", 1));
  }

  // Makes the snapshot. Returns the name of one of its segments.
  std::string Snapshot() {
    EXPECT_OK(tested_.store().Snapshot(snapshot_));
    const std::set<std::string> segments = SegmentsIn(snapshot_);
    EXPECT_FALSE(segments.empty());
    return segments.empty() ? "" : *segments.begin();
  }
  absl::Status Restore() const { return Store::Restore(snapshot_, dir_ / "restored"); }

  const TempDir dir_;
  const std::string snapshot_ = dir_ / "snapshot";
  ModelStore tested_;
};

TEST_F(StoreSnapshotTest, ARestoredStoreHoldsTheRowsOfThatMoment) {
  const auto writer = tested_.Begin("a", 9, "open");  // stays open, so it is not in the snapshot
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Checkpoint());
  ASSERT_OK(tested_.store().Snapshot(snapshot_));
  const fault::Model then = tested_.model();
  ASSERT_OK(tested_.Upload("a", 6));
  ASSERT_OK(tested_.store().Compact(tested_.IdOf("a"), {.small_segments_min = 2}));
  EXPECT_TRUE(tested_.Same());

  ASSERT_OK(Restore());
  ModelStore restored(dir_ / "restored");
  restored.model() = then;
  EXPECT_TRUE(restored.Same());
  EXPECT_OK(restored.store().Verify());
  EXPECT_THAT(restored.store().GetUpload(restored.Key("a", "open")), StatusIs(kNotFound));
  ASSERT_OK(restored.Upload("a", 7));
  EXPECT_TRUE(restored.Same());
}

// Cursors and epochs were distinguished only by the collection's id, which is equal in every data
// directory. After a restore, the number of an earlier epoch named other rows.
TEST_F(StoreSnapshotTest, ARestoredStoreHasAnotherIncarnation) {
  const int64_t a = tested_.IdOf("a");
  const uint64_t before = tested_.store().IncarnationOf(a);
  EXPECT_NE(before, 0u);
  tested_.Reopen();
  EXPECT_EQ(tested_.store().IncarnationOf(a), before) << "a restart is no other incarnation";
  EXPECT_NE(tested_.store().IncarnationOf(a + 1), before);
  ASSERT_OK(tested_.store().Snapshot(snapshot_));
  EXPECT_EQ(tested_.store().IncarnationOf(a), before);
  std::set<uint64_t> drawn = {before};
  for (const std::string name : {"first", "second"}) {
    ASSERT_OK(Store::Restore(snapshot_, dir_ / name));
    ModelStore restored(dir_ / name);
    const uint64_t incarnation = restored.store().IncarnationOf(a);
    EXPECT_TRUE(drawn.insert(incarnation).second) << name;
    restored.Reopen();
    EXPECT_EQ(restored.store().IncarnationOf(a), incarnation);
  }
  ModelStore other(dir_ / "other");
  EXPECT_TRUE(drawn.insert(other.store().IncarnationOf(a)).second);
}

TEST_F(StoreSnapshotTest, ADirectoryOfAnEarlierVersionGetsAnIncarnationAtItsFirstStart) {
  const int64_t a = tested_.IdOf("a");
  tested_.Close();
  {
    ASSERT_OK_AND_ASSIGN(auto database,
                         Database::Open(dir_ / "data/catalog.db", Database::Mode::kExisting));
    ASSERT_OK(database->Run("DELETE FROM facts WHERE id=2"));
    ASSERT_OK(database->Close());
  }
  tested_.Reopen();
  const uint64_t drawn = tested_.store().IncarnationOf(a);
  tested_.Reopen();
  EXPECT_EQ(tested_.store().IncarnationOf(a), drawn);
  EXPECT_TRUE(tested_.Same());
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreSnapshotTest, SegmentsAreLinkedNotCopied) {
  const std::string segment = Snapshot();
  EXPECT_EQ(std::filesystem::hard_link_count(snapshot_ + "/" + segment), 2u);
}

TEST_F(StoreSnapshotTest, AnyChangedByteStopsARestore) {
  ASSERT_OK(tested_.store().Snapshot(snapshot_));
  for (const auto& entry : std::filesystem::directory_iterator(snapshot_)) {
    const auto size = static_cast<int64_t>(entry.file_size());
    for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
      FlipByte(entry.path(), at);
      EXPECT_THAT(Restore(), StatusIs(kDataLoss)) << entry.path() << " " << at;
      EXPECT_FALSE(std::filesystem::exists(dir_ / "restored"));
      EXPECT_FALSE(std::filesystem::exists(dir_ / "restored.restoring"));
      FlipByte(entry.path(), at);
    }
  }
  EXPECT_OK(Store::Restore(snapshot_, dir_ / "restored/"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "restored/catalog.db"));
}

TEST_F(StoreSnapshotTest, NothingIsOverwritten) {
  ASSERT_OK(tested_.store().Snapshot(snapshot_));
  EXPECT_THAT(tested_.store().Snapshot(snapshot_), StatusIs(kAlreadyExists));
  EXPECT_THAT(Store::Restore(snapshot_, dir_ / "data"), StatusIs(kAlreadyExists));
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreSnapshotTest, AMissingFileStopsARestore) {
  const std::string missing = Snapshot();
  std::filesystem::remove(snapshot_ + "/" + missing);
  EXPECT_THAT(Restore(), FailsWith(kNotFound, missing));
}

TEST(ManifestTest, HoldsOnlyNamesOfAStore) {
  const ManifestFile file = {.name = "catalog.db", .bytes = 7, .sha256 = std::string(64, 'a')};
  const auto parse = [](const ManifestFile& each, const std::string& owner = "") {
    return ParseManifest(EncodeManifest({.owner = owner, .files = {each}}), "p");
  };
  for (const std::string owner : {"", "someone"}) {
    ASSERT_OK_AND_ASSIGN(const Manifest parsed, parse(file, owner));
    EXPECT_EQ(parsed.owner, owner);
    ASSERT_EQ(parsed.files.size(), 1u);
    EXPECT_EQ(parsed.files.front().bytes, 7);
  }
  for (const char* const name :
       {"../catalog.db", "/etc/passwd", "1.seg", "000000000000000x.seg", "MANIFEST"}) {
    ManifestFile bad = file;
    bad.name = name;
    EXPECT_THAT(parse(bad), StatusIs(kDataLoss)) << name;
  }
  ManifestFile negative = file;
  negative.bytes = -1;
  EXPECT_THAT(parse(negative), StatusIs(kDataLoss));
  EXPECT_THAT(ParseManifest("", "p"), StatusIs(kDataLoss));
}

TEST(ManifestTest, ANewerFormatIsRefusedWithBothVersionsAndThePath) {
  std::string text = absl::StrCat("nearfield snapshot ", kCatalogFormat.written + 1, "\n");
  text += "sha256 " + DigestHex(Sha256().Add(text).Value()) + "\n";
  EXPECT_THAT(
      ParseManifest(text, "/snapshots/a/MANIFEST"),
      FailsWith(kFailedPrecondition,
                absl::StrCat("/snapshots/a/MANIFEST: snapshot format ", kCatalogFormat.written + 1),
                absl::StrCat("1 .. ", kCatalogFormat.written)));
}

}  // namespace
}  // namespace nearfield::store
