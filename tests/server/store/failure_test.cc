// Tests a store whose system calls fail: which failures end the call, the collection or the
// process.
#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/store/store.h"
#include "tests/server/store/failing_calls.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

const auto kIgnore = [](const StoredBlock&) { return absl::OkStatus(); };

// Two collections with rows, and an open upload "t" into the first. ModelStore fails the test if
// the store calls on_fatal.
class StoreFailureTest : public ::testing::Test {
 protected:
  StoreFailureTest() : tested_(dir_ / "data") {
    a_ = tested_.Create("a", 1);
    for (int64_t number = 1; number <= 3; ++number) EXPECT_OK(tested_.Upload("a", number));
    EXPECT_OK(tested_.Delete("a", 1));
    b_ = tested_.Create("b", 2);
    EXPECT_OK(tested_.Upload("b", 4));
    const auto writer = tested_.Begin("a", 9, "t");
    EXPECT_OK(writer);
    EXPECT_OK((*writer)->Checkpoint());
  }

  Store& store() { return tested_.store(); }
  // Runs statements on the catalog of a closed store. Returns the last value.
  std::string Sql(const char* sql) const {
    sqlite3* connection = nullptr;
    EXPECT_EQ(sqlite3_open((dir_ / "data/catalog.db").c_str(), &connection), SQLITE_OK);
    std::string value;
    const auto keep = [](void* to, int, char** values, char**) {
      *static_cast<std::string*>(to) = values[0];
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(connection, sql, keep, &value, nullptr), SQLITE_OK);
    sqlite3_close(connection);
    return value;
  }
  // Returns the number of the next file.
  int64_t NextSegment() {
    int64_t number = 0;
    const FailingCalls failing([&](const FileCall& call) {
      const std::filesystem::path path = call.path;
      if (path.extension() == ".seg") number = std::stoll(path.stem().string());
      return 0;
    });
    EXPECT_OK(store().BeginUpload(a_, {}));
    return number + 1;
  }

  const TempDir dir_;
  ModelStore tested_;
  int64_t a_ = 0;
  int64_t b_ = 0;
};

class StoreNoDescriptorTest : public StoreFailureTest, public ::testing::WithParamInterface<int> {};

// A process without descriptors or memory ended at the next upload, resumed upload or compaction,
// although nothing had been written. All searches in flight ended with it.
TEST_P(StoreNoDescriptorTest, AFailedOpenEndsTheCallAndNotTheProcess) {
  {
    const FailingCalls failing([&](const FileCall& call) {
      const bool segment = absl::EndsWith(call.path, ".seg");
      return call.kind == FileCall::Kind::kOpen && segment ? GetParam() : 0;
    });
    const auto exhausted = FailsWith(kResourceExhausted, "open");
    EXPECT_THAT(store().BeginUpload(a_, {}), exhausted);
    EXPECT_THAT(store().BeginUpload(a_, {.token = "u"}), exhausted);
    EXPECT_THAT(store().ResumeUpload({.collection_id = a_, .token = "t"}, kIgnore), exhausted);
    EXPECT_THAT(store().Compact(a_, AllSegments()), exhausted);
    EXPECT_THAT(store().Load(a_, kIgnore, {}), exhausted);
    EXPECT_OK(tested_.Delete("b", 2));
  }
  EXPECT_EQ(store().ReadFailuresOf(a_).count, 0);
  ASSERT_OK(store().ResumeUpload({.collection_id = a_, .token = "t"}, kIgnore));
  EXPECT_OK(store().Compact(a_, AllSegments()));
  EXPECT_OK(tested_.Upload("a", 5));
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
  EXPECT_OK(store().Verify());
}

// If SQLite could not open its file of a snapshot, the error was INTERNAL, as for a bug.
TEST_P(StoreNoDescriptorTest, ASnapshotIsResourceExhaustedAndTheNextOneSucceeds) {
  const std::string path = dir_ / "snapshot";
  absl::Status status = absl::UnknownError("");
  for (int64_t at = 1; !status.ok(); ++at) {
    int64_t opens = 0;
    {
      const FailingCalls failing([&](const FileCall& call) {
        return call.kind == FileCall::Kind::kOpen && ++opens >= at ? GetParam() : 0;
      });
      status = store().Snapshot(path);
    }
    ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status))
        << "open " << at << ": " << status;
    ASSERT_OK(store().Verify()) << "open " << at;
  }
  EXPECT_OK(tested_.Delete("b", 1));
  EXPECT_TRUE(tested_.Same());
}

INSTANTIATE_TEST_SUITE_P(Errors, StoreNoDescriptorTest, ::testing::Values(EMFILE, ENFILE, ENOMEM));

// A missing segment was reported as an unknown collection, and the scrub took it for one that a
// compaction had replaced.
TEST_F(StoreFailureTest, ASegmentThatVanishedOrIsForbiddenIsDataLoss) {
  for (const int error : {ENOENT, EACCES}) {
    const FailingCalls failing([&](const FileCall& call) {
      const bool segment = absl::EndsWith(call.path, ".seg");
      return call.kind == FileCall::Kind::kOpen && segment ? error : 0;
    });
    EXPECT_THAT(store().Load(a_, kIgnore, {}), FailsWith(kDataLoss, ".seg"));
    EXPECT_THAT(store().ReadFailuresOf(a_).latest, StatusIs(kDataLoss));
    EXPECT_EQ(store().ReadFailuresOf(b_).count, 0);
  }
  EXPECT_EQ(store().ReadFailuresOf(a_).count, 2);
}

// One unreadable sector of a committed segment ended the process when a compaction read it,
// although the collection was intact in memory.
TEST_F(StoreFailureTest, AnyReadThatFailsInACompactionEndsOnlyTheCompaction) {
  int64_t reads = 0;
  bool failed = true;
  for (int64_t at = 1; failed; ++at) {
    reads = 0;
    failed = false;
    absl::Status compacted;
    {
      const FailingCalls failing([&](const FileCall& call) {
        if (call.kind != FileCall::Kind::kRead || !absl::EndsWith(call.path, ".seg")) return 0;
        if (++reads != at) return 0;
        failed = true;
        return EIO;
      });
      compacted = store().Compact(a_, AllSegments()).status();
    }
    if (!failed) {
      EXPECT_OK(compacted);
      EXPECT_GT(at, 4);
      break;
    }
    EXPECT_THAT(compacted, FailsWith(kDataLoss, ".seg", "read"));
    EXPECT_THAT(store().ReadFailuresOf(a_).latest, StatusIs(kDataLoss));
    EXPECT_EQ(store().ReadFailuresOf(b_).count, 0);
    ASSERT_TRUE(tested_.Same()) << at;
    ASSERT_OK(tested_.Upload("b", 100 + at));
  }
  EXPECT_TRUE(tested_.Same());
  EXPECT_OK(store().Verify());
}

// A segment with an unreadable header prevented the start of the whole server.
TEST_F(StoreFailureTest, AnUnreadableHeaderTakesOnlyItsCollectionOut) {
  for (const int error : {EIO, EACCES}) {
    tested_.Close();
    const std::string segment = tested_.SegmentPath(2);
    {
      const FailingCalls failing([&](const FileCall& call) {
        const bool reads =
            error == EIO ? call.kind == FileCall::Kind::kRead : call.kind == FileCall::Kind::kOpen;
        return reads && call.path == segment ? error : 0;
      });
      tested_.Reopen();
    }
    EXPECT_THAT(store().Load(a_, kIgnore, {}), FailsWith(kDataLoss, segment));
    EXPECT_OK(store().Load(b_, kIgnore, {}));
    EXPECT_OK(tested_.Upload("b", 10 + error));
  }
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
}

// Data that a failed sync dropped cannot be written again, so this failure must end the process.
TEST_F(StoreFailureTest, AFailedSyncOfASegmentIsFatal) {
  tested_.Close();
  absl::Status fatal;
  StoreOptions options = tested_.Options();
  options.on_fatal = [&fatal](const absl::Status& status) { fatal = status; };
  const auto opened = Store::Open(options);
  ASSERT_OK(opened);
  const auto writer = (*opened)->BeginUpload(a_, {});
  ASSERT_OK(writer);
  const FailingCalls failing([](const FileCall& call) {
    return call.kind == FileCall::Kind::kSync && absl::EndsWith(call.path, ".seg") ? EIO : 0;
  });
  EXPECT_THAT((*writer)->Sync(), StatusIs(kUnavailable));
  EXPECT_THAT(fatal, FailsWith(kInternal, "fdatasync"));
}

// Returns the file names of the syncs and writes of `work`, in order.
std::vector<std::string> CallsOf(const std::function<void()>& work) {
  std::vector<std::string> calls;
  const FailingCalls failing([&calls](const FileCall& call) {
    const std::string name = std::filesystem::path(call.path).filename();
    if (call.kind == FileCall::Kind::kSync) calls.push_back("sync " + name);
    if (call.kind == FileCall::Kind::kWrite) calls.push_back("write " + name);
    return 0;
  });
  work();
  return calls;
}

size_t PlaceOf(const std::vector<std::string>& calls, const std::string& call) {
  return static_cast<size_t>(std::find(calls.begin(), calls.end(), call) - calls.begin());
}

// The bytes of a segment, and then its name, must be durable before the commit that names it.
TEST_F(StoreFailureTest, ASegmentAndItsNameAreSyncedBeforeItsCommit) {
  const std::string name =
      std::filesystem::path(tested_.SegmentPath(NextSegment())).filename().string();
  absl::Status uploaded;
  const std::vector<std::string> calls = CallsOf([&] { uploaded = tested_.Upload("a", 20); });
  ASSERT_OK(uploaded);
  const size_t bytes = PlaceOf(calls, "sync " + name);
  const size_t directory = PlaceOf(calls, "sync data");
  EXPECT_LT(bytes, directory);
  EXPECT_LT(directory, PlaceOf(calls, "write catalog.db-wal"));
  EXPECT_LT(PlaceOf(calls, "write catalog.db-wal"), calls.size());
}

TEST_F(StoreFailureTest, AnUploadWithATokenIsSyncedBeforeTheCatalogNamesIt) {
  const std::string name =
      std::filesystem::path(tested_.SegmentPath(NextSegment())).filename().string();
  const std::vector<std::string> calls =
      CallsOf([&] { EXPECT_OK(store().BeginUpload(a_, {.token = "u"})); });
  const size_t bytes = PlaceOf(calls, "sync " + name);
  const size_t directory = PlaceOf(calls, "sync data");
  EXPECT_LT(bytes, directory);
  EXPECT_LT(directory, PlaceOf(calls, "write catalog.db-wal"));
}

TEST_F(StoreFailureTest, ASnapshotIsDurableUnderItsName) {
  absl::Status taken;
  bool renamed = false;
  std::string last;
  {
    const FailingCalls failing([&](const FileCall& call) {
      renamed = renamed || std::filesystem::exists(dir_ / "snapshot");
      if (renamed && call.kind == FileCall::Kind::kSync) last = call.path;
      return 0;
    });
    taken = store().Snapshot(dir_ / "snapshot");
  }
  ASSERT_OK(taken);
  EXPECT_EQ(last, dir_.path());
}

// Two streams that began the same token concurrently both got a writer.
TEST_F(StoreFailureTest, OneTokenBegunTwiceAtOnceHasOneWriter) {
  std::unique_ptr<SegmentWriter> inner;
  bool begun = false;
  const FailingCalls failing([&](const FileCall& call) {
    if (call.kind != FileCall::Kind::kOpen || !absl::EndsWith(call.path, ".seg")) return 0;
    if (begun) return 0;
    begun = true;  // the other stream begins while this one makes its file
    auto other = store().BeginUpload(a_, {.token = "u"});
    EXPECT_OK(other);
    if (other.ok()) inner = *std::move(other);
    return 0;
  });
  EXPECT_THAT(store().BeginUpload(a_, {.token = "u"}), StatusIs(kAlreadyExists));
  EXPECT_TRUE(begun);
  EXPECT_OK(inner->Checkpoint());
}

// A slow disk holds up only the call that waits for it: a sync holds no lock of the store.
TEST_F(StoreFailureTest, WhileAnUploadSyncsOthersCommitAndLoad) {
  const std::string path = tested_.SegmentPath(NextSegment());
  bool synced = false;
  const FailingCalls failing([&](const FileCall& call) {
    if (call.kind != FileCall::Kind::kSync || call.path != path || synced) return 0;
    synced = true;
    EXPECT_OK(tested_.Upload("b", 30));
    EXPECT_OK(tested_.Delete("b", 3));
    EXPECT_OK(store().Load(b_, kIgnore, {}));
    return 0;
  });
  EXPECT_OK(tested_.Upload("a", 31));
  EXPECT_TRUE(synced);
  EXPECT_TRUE(tested_.Same());
}

// A snapshot needs space for its catalog and its list of files, at least.
TEST_F(StoreFailureTest, ASnapshotOnAFullDiskLeavesNothingAndHarmsNothing) {
  bool failed = true;
  for (int64_t at = 1; failed; ++at) {
    int64_t growths = 0;
    failed = false;
    const FailingCalls failing([&](const FileCall& call) {
      const bool snapshot = call.path.find("/snapshot") != std::string::npos;
      if (!snapshot || !call.grows || ++growths < at) return 0;
      failed = true;
      return ENOSPC;
    });
    const absl::Status taken = store().Snapshot(dir_ / "snapshot");
    if (!failed) {
      EXPECT_OK(taken);
      EXPECT_GT(at, 1);
      break;
    }
    ASSERT_THAT(taken, StatusIs(kResourceExhausted)) << at;
    for (const char* const name : {"snapshot", "snapshot.partial", "snapshot.partial.catalog"}) {
      ASSERT_FALSE(std::filesystem::exists(dir_ / name)) << at << ": " << name;
    }
    ASSERT_OK(store().Verify()) << at;
  }
  EXPECT_TRUE(tested_.Same());
}

// A process that could start only one of several threads ended.
TEST_F(StoreFailureTest, ALoadNeedsOnlyOneThread) {
  int64_t rows = 0;
  const auto count = [&rows](const StoredBlock& block) {
    rows += block.ids->size();
    return absl::OkStatus();
  };
  {
    const ThreadLimit one(1);
    ASSERT_OK(store().Load(a_, count, {.threads = 5}));
  }
  EXPECT_EQ(rows, static_cast<int64_t>(tested_.model().collections.at("a").rows.size()));
  const ThreadLimit none(0);
  EXPECT_THAT(store().Load(a_, count, {.threads = 5}), StatusIs(kResourceExhausted));
}

// SQLite mapped an index of its log, which it could not extend on a full disk. So a cleanly stopped
// server did not start again.
TEST_F(StoreFailureTest, AFullDiskStopsNoStart) {
  tested_.Close();
  {
    const FailingCalls failing([&](const FileCall& call) {
      const bool stored = call.path.compare(0, dir_.path().size(), dir_.path()) == 0;
      return stored && call.grows ? ENOSPC : 0;
    });
    tested_.Reopen();
    EXPECT_FALSE(std::filesystem::exists(dir_ / "data/catalog.db-shm"));
    EXPECT_TRUE(tested_.Same());
    EXPECT_THAT(store().CommitDelete(b_, tested_.model().collections.at("b").epoch + 1,
                                     fault::DeletedBy(tested_.model().collections.at("b"), 1)),
                StatusIs(kResourceExhausted));
    tested_.Close();
    tested_.Reopen();
  }
  EXPECT_OK(tested_.Delete("b", 1));
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
}

// A full disk has no space for the tables that later formats add. The start serves format 1, and
// the first commit that finds space upgrades it.
TEST_F(StoreFailureTest, ADirectoryOfFormat1OnAFullDiskIsServedAndBroughtUpToDateOnceThereIsRoom) {
  tested_.Close();
  Sql("DROP TABLE upload_results; DROP TABLE owners; DROP TABLE device_counts; "
      "DROP TABLE embedding_models; DROP TABLE patches; DROP TABLE update_tokens; "
      "UPDATE facts SET format=1; PRAGMA user_version=1");
  bool full = false;
  const FailingCalls failing([&](const FileCall& call) {
    const bool stored = call.path.compare(0, dir_.path().size(), dir_.path()) == 0;
    return full && stored && call.grows ? ENOSPC : 0;
  });
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(Sql("PRAGMA user_version"), "1");
    full = true;
    tested_.Reopen();
    EXPECT_TRUE(tested_.Same());
    EXPECT_THAT(store().SetAlias("x", a_), StatusIs(kResourceExhausted));
    EXPECT_TRUE(tested_.Same());
    if (start == 0) tested_.Close();
    full = false;
  }
  ASSERT_OK(tested_.Delete("b", 1));
  EXPECT_OK(store().Verify());
  tested_.Close();
  EXPECT_EQ(Sql("PRAGMA user_version"), "7");
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
}

}  // namespace
}  // namespace nearfield::store
