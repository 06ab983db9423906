// Tests the deletion of snapshots, also one that a failed call or the end of the process cuts
// short.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "server/store/file.h"
#include "server/store/store.h"
#include "tests/server/store/failing_calls.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

class StoreDeleteSnapshotTest : public ::testing::Test {
 protected:
  StoreDeleteSnapshotTest() : tested_(dir_ / "data") {
    std::filesystem::create_directory(snapshots_);
    tested_.Create("a", 1);
    for (int64_t number = 1; number <= 3; ++number) EXPECT_OK(tested_.Upload("a", number));
    for (const std::string name : {"one", "two"}) EXPECT_OK(tested_.store().Snapshot(Path(name)));
  }

  std::string Path(const std::string& name) const { return snapshots_ + "/" + name; }
  absl::Status Delete(const std::string& name) const {
    return Store::DeleteSnapshot(snapshots_, name);
  }
  std::vector<std::string> Listed() const {
    std::vector<std::string> names;
    const auto listed = Store::ListSnapshots(snapshots_);
    EXPECT_OK(listed);
    for (const SnapshotInfo& info : *listed) names.push_back(info.name);
    return names;
  }
  // Restores the snapshot, to check that it is complete.
  absl::Status Restore(const std::string& name) const {
    const std::string to = dir_ / "restored";
    std::filesystem::remove_all(to);
    return Store::Restore(Path(name), to);
  }

  const TempDir dir_;
  const std::string snapshots_ = dir_ / "snapshots";
  ModelStore tested_;
};

TEST_F(StoreDeleteSnapshotTest, OnlyThatSnapshotIsGone) {
  ASSERT_OK(Delete("one"));
  EXPECT_THAT(Listed(), ElementsAre("two"));
  EXPECT_FALSE(std::filesystem::exists(Path("one")));
  EXPECT_FALSE(std::filesystem::exists(Path(".deleted-one")));
  EXPECT_OK(Restore("two"));
  EXPECT_OK(tested_.store().Verify());
  EXPECT_TRUE(tested_.Same());
  EXPECT_THAT(Delete("one"), StatusIs(kNotFound));
  EXPECT_OK(tested_.store().Snapshot(Path("one"))) << "the name is free again";
}

TEST_F(StoreDeleteSnapshotTest, AListDuringADeletionNamesNoDamage) {
  std::atomic<bool> ended = false;
  std::thread deleter([&] {
    for (int round = 0; round < 200; ++round) {
      EXPECT_OK(Delete("one"));
      EXPECT_OK(tested_.store().Snapshot(Path("one")));
    }
    ended = true;
  });
  while (!ended) {
    const auto listed = Store::ListSnapshots(snapshots_);
    EXPECT_OK(listed);
    for (const SnapshotInfo& info : *listed) EXPECT_OK(info.state) << info.name;
  }
  deleter.join();
  EXPECT_THAT(Listed(), ElementsAre("one", "two"));
}

TEST_F(StoreDeleteSnapshotTest, ADirectoryThatIsNoSnapshotStays) {
  std::filesystem::create_directory(Path("mine"));
  std::ofstream(Path("mine") + "/notes") << "text";
  EXPECT_THAT(Delete("mine"), FailsWith(kNotFound, "MANIFEST"));
  EXPECT_TRUE(std::filesystem::exists(Path("mine") + "/notes"));
  std::filesystem::create_directory_symlink(Path("one"), Path("link"));
  EXPECT_THAT(Delete("link"), FailsWith(kFailedPrecondition, "symbolic link"));
  EXPECT_OK(Restore("one"));
}

TEST_F(StoreDeleteSnapshotTest, ARestoreAndADeletionExcludeEachOther) {
  {
    ASSERT_OK_AND_ASSIGN(const auto reader, Directory::Open(Path("one")));
    ASSERT_OK(reader->LockShared());
    EXPECT_THAT(Delete("one"), FailsWith(kFailedPrecondition, "restoring"));
    EXPECT_OK(Restore("one")) << "several may read it";
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto deleter, Directory::Open(Path("one")));
    ASSERT_OK(deleter->Lock());
    EXPECT_THAT(Restore("one"), FailsWith(kFailedPrecondition, "being deleted"));
  }
  EXPECT_OK(Delete("one"));
}

TEST_F(StoreDeleteSnapshotTest, AStartFinishesADeletion) {
  std::filesystem::rename(Path("one"), Path(".deleted-one"));
  std::filesystem::remove(Path(".deleted-one/") + *SegmentsIn(Path(".deleted-one")).begin());
  EXPECT_THAT(Listed(), ElementsAre("two"));
  ASSERT_OK(tested_.store().Snapshot(Path("one"))) << "the name is free";
  EXPECT_THAT(Store::FinishSnapshotDeletions(snapshots_), ::absl_testing::IsOkAndHolds(1));
  EXPECT_FALSE(std::filesystem::exists(Path(".deleted-one")));
  EXPECT_THAT(Listed(), ElementsAre("one", "two"));
  EXPECT_THAT(Store::FinishSnapshotDeletions(snapshots_), ::absl_testing::IsOkAndHolds(0));
  EXPECT_THAT(Store::FinishSnapshotDeletions(dir_ / "none"), ::absl_testing::IsOkAndHolds(0));
}

// The directory of snapshots may be one that other programs also use.
TEST_F(StoreDeleteSnapshotTest, AStartLeavesWhatIsNoSnapshot) {
  std::filesystem::create_directory(Path(".deleted-other"));
  std::ofstream(Path(".deleted-other/notes")) << "kept";
  std::filesystem::create_directory_symlink(Path("two"), Path(".deleted-link"));
  std::vector<std::string> left;
  EXPECT_THAT(Store::FinishSnapshotDeletions(snapshots_, &left), ::absl_testing::IsOkAndHolds(0));
  EXPECT_THAT(left, ElementsAre(Path(".deleted-link"), Path(".deleted-other")));
  EXPECT_TRUE(std::filesystem::exists(Path(".deleted-other/notes")));
  EXPECT_THAT(Listed(), ElementsAre("one", "two"));
}

TEST_F(StoreDeleteSnapshotTest, ADeletionReplacesTheRestOfAnEarlierOne) {
  std::filesystem::copy(Path("two"), Path(".deleted-one"));
  ASSERT_OK(Delete("one"));
  EXPECT_FALSE(std::filesystem::exists(Path(".deleted-one")));
}

// A power loss could otherwise restore the name without the files.
TEST_F(StoreDeleteSnapshotTest, TheNameIsGoneDurablyBeforeTheFirstFile) {
  const auto files = [](const std::string& dir) {
    std::error_code absent;
    return std::distance(std::filesystem::directory_iterator(dir, absent), {});
  };
  const auto all = files(Path("one"));
  bool synced = false;
  {
    const FailingCalls failing([&](const FileCall& call) {
      if (call.kind != FileCall::Kind::kSync || call.path != snapshots_ || synced) return 0;
      synced = true;
      EXPECT_FALSE(std::filesystem::exists(Path("one")));
      EXPECT_EQ(files(Path(".deleted-one")), all);
      return 0;
    });
    ASSERT_OK(Delete("one"));
  }
  EXPECT_TRUE(synced);
}

TEST_F(StoreDeleteSnapshotTest, AFailedSyncRemovesNoFile) {
  {
    const FailingCalls failing([&](const FileCall& call) {
      return call.kind == FileCall::Kind::kSync && call.path == snapshots_ ? EIO : 0;
    });
    EXPECT_THAT(Delete("one"), FailsWith(kInternal, "fsync"));
    EXPECT_THAT(Store::FinishSnapshotDeletions(snapshots_), StatusIs(kInternal));
  }
  EXPECT_FALSE(SegmentsIn(Path(".deleted-one")).empty());
  EXPECT_THAT(Store::FinishSnapshotDeletions(snapshots_), ::absl_testing::IsOkAndHolds(1));
}

// Whichever open fails, the snapshot is complete, or it is not listed and a start removes the rest.
TEST_F(StoreDeleteSnapshotTest, WithoutDescriptorsNoListedSnapshotIsIncomplete) {
  absl::Status status = absl::UnknownError("");
  for (int64_t at = 1; !status.ok(); ++at) {
    int64_t opens = 0;
    {
      const FailingCalls failing([&](const FileCall& call) {
        return call.kind == FileCall::Kind::kOpen && ++opens >= at ? EMFILE : 0;
      });
      status = Delete("one");
    }
    ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << "open " << at << status;
    if (std::filesystem::exists(Path("one"))) {
      EXPECT_OK(Restore("one"));
      continue;
    }
    EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), "until the next start"));
    EXPECT_THAT(Listed(), ElementsAre("two"));
    EXPECT_OK(Store::FinishSnapshotDeletions(snapshots_));
    EXPECT_FALSE(std::filesystem::exists(Path(".deleted-one")));
    if (!status.ok()) {
      ASSERT_OK(tested_.store().Snapshot(Path("one")));
    }
  }
  EXPECT_OK(Restore("two"));
}

}  // namespace
}  // namespace nearfield::store
