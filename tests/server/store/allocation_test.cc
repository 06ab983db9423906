// Tests changes of the store while any allocation fails: each change happens as a whole or not at
// all.
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/store/store.h"
#include "tests/server/store/allocation_fixture.h"

namespace nearfield::store {
namespace {

// Memory ran out between the catalog's COMMIT and the update of the tables in memory. The next
// commit took the same place in the chain, and the store never opened again.
TEST_F(StoreAllocationTest, AnUploadCommitsAsAWholeOrNotAtAll) {
  const int64_t upload = UpsertAfter(50);
  FailEach(
      AllocationFailure::Threads::kThis,
      [&] {
        if (FewRows()) {
          ASSERT_OK(tested_.Upload("a", UpsertAfter(1)));
        }
        PrepareUpload(upload);
      },
      [this] {
        return tested_.store().CommitUpload(writer_.get(), {.epoch = epoch_,
                                                            .replaced_ids = &effect_.replaced,
                                                            .superseded_rows = effect_.superseded});
      },
      [&] {
        tested_.model().Apply(
            {.kind = fault::Operation::Kind::kCommit, .collection = "a", .upload = upload});
      });
}

TEST_F(StoreAllocationTest, ADeletionCommitsAsAWholeOrNotAtAll) {
  IdColumn ids;
  FailEach(
      AllocationFailure::Threads::kThis,
      [&] {
        if (FewRows()) {
          ASSERT_OK(tested_.Upload("a", UpsertAfter(1)));
        }
        const fault::ModelCollection& collection = tested_.model().collections.at("a");
        ids = fault::DeletedBy(collection, ++number_);
        epoch_ = collection.epoch + 1;
      },
      [&] { return tested_.store().CommitDelete(id_, epoch_, ids); },
      [&] {
        tested_.model().Apply(
            {.kind = fault::Operation::Kind::kDelete, .number = number_, .collection = "a"});
      });
}

using Kind = fault::Operation::Kind;

// The calls that change names let std::bad_alloc escape from the store: it ended the process.
TEST_F(StoreAllocationTest, ACollectionIsCreatedOrNot) {
  uint64_t incarnation = 0;
  FailEachOf(
      {.kind = Kind::kCreate, .number = 1, .collection = "b"},
      [&] {
        return tested_.store()
            .CreateCollection("b", fault::SpecOf(1), "schema", &incarnation)
            .status();
      },
      {.kind = Kind::kDrop, .collection = "b"},
      [&] {
        const int64_t id = tested_.IdOf("b");
        EXPECT_EQ(incarnation, tested_.store().IncarnationOf(id));
        ASSERT_OK(tested_.store().DropCollection(id));
      });
}

TEST_F(StoreAllocationTest, ACollectionIsDroppedWithAllOfItOrNot) {
  const auto create = [&] {
    tested_.Create("b", 1);
    ASSERT_OK(tested_.Upload("b", UpsertAfter(1)));
    ASSERT_OK(tested_.store().SetAlias("alias-1", tested_.IdOf("b")));
    tested_.model().Apply({.kind = Kind::kAlias, .collection = "b", .count = 1});
    ASSERT_OK(tested_.Begin("b", UpsertAfter(50), fault::TokenOf(UpsertAfter(50))));
    tested_.model().Apply({.kind = Kind::kBegin, .collection = "b", .upload = UpsertAfter(50)});
  };
  create();
  int64_t id = tested_.IdOf("b");
  FailEachOf(
      {.kind = Kind::kDrop, .collection = "b"}, [&] { return tested_.store().DropCollection(id); },
      {.kind = Kind::kDropAlias, .collection = "a"},  // changes nothing: `create` updates the model
      [&] {
        create();
        id = tested_.IdOf("b");
      });
}

TEST_F(StoreAllocationTest, AnAliasIsSetOrNot) {
  FailEachOf(
      {.kind = Kind::kAlias, .collection = "a", .count = 1},
      [&] { return tested_.store().SetAlias("alias-1", id_); },
      {.kind = Kind::kDropAlias, .collection = "a", .count = 1},
      [&] { ASSERT_OK(tested_.store().DropAlias("alias-1")); });
}

TEST_F(StoreAllocationTest, AnAliasIsDroppedOrNot) {
  const auto set = [&] { ASSERT_OK(tested_.store().SetAlias("alias-1", id_)); };
  const fault::Operation alias = {.kind = Kind::kAlias, .collection = "a", .count = 1};
  set();
  tested_.model().Apply(alias);
  FailEachOf(
      {.kind = Kind::kDropAlias, .collection = "a", .count = 1},
      [&] { return tested_.store().DropAlias("alias-1"); }, alias, set);
}

// The writer was allocated only after the catalog named the upload: the call failed, but its
// token was in use.
TEST_F(StoreAllocationTest, AnUploadBeginsOrNot) {
  const int64_t upload = UpsertAfter(50);
  FailEachOf(
      {.kind = Kind::kBegin, .collection = "a", .upload = upload},
      [&]() -> absl::Status {
        ABSL_ASSIGN_OR_RETURN(
            writer_, tested_.store().BeginUpload(
                         id_, {.mode = UploadMode::kUpsert, .token = fault::TokenOf(upload)}));
        return absl::OkStatus();
      },
      {.kind = Kind::kDropUpload, .upload = upload},
      [&] { ASSERT_OK(tested_.store().DropUpload(tested_.Key("a", fault::TokenOf(upload)))); });
}

// An upload without a token left its file. A check of the whole store then found a file that
// nothing names.
TEST_F(StoreAllocationTest, AnUploadThatDoesNotBeginLeavesNoFile) {
  FailEach(
      AllocationFailure::Threads::kThis, [&] { KeepRows(); },
      [&]() -> absl::Status {
        ABSL_ASSIGN_OR_RETURN(writer_, tested_.store().BeginUpload(id_, {}));
        return absl::OkStatus();
      },
      [] {});
}

// The end of an upload's stream records the durable rows in a destructor. There std::bad_alloc
// ended the process.
TEST_F(StoreAllocationTest, ACheckpointIsRecordedOrNot) {
  const int64_t upload = UpsertAfter(50);
  const std::string token = fault::TokenOf(upload);
  const auto begin = [&] {
    auto writer = tested_.Begin("a", upload, token);
    ASSERT_OK(writer);
    writer_ = *std::move(writer);
  };
  const fault::Operation begun = {.kind = Kind::kBegin, .collection = "a", .upload = upload};
  bool first = true;
  FailEach(
      AllocationFailure::Threads::kThis,
      [&] {
        KeepRows();
        if (!std::exchange(first, false)) {
          ASSERT_OK(tested_.store().DropUpload(tested_.Key("a", token)));
        }
        begin();
        tested_.model().Apply(begun);
      },
      [&] { return writer_->Checkpoint(); },
      [&] { tested_.model().Apply({.kind = Kind::kCheckpoint, .upload = upload, .count = 1}); });
}

// The upload stayed "in use by another stream" until the process ended.
TEST_F(StoreAllocationTest, AnUploadThatIsNotResumedIsLeft) {
  const int64_t upload = UpsertAfter(50);
  const std::string token = fault::TokenOf(upload);
  ASSERT_OK((*tested_.Begin("a", upload, token))->Checkpoint());
  tested_.model().Apply({.kind = Kind::kBegin, .collection = "a", .upload = upload});
  tested_.model().Apply({.kind = Kind::kCheckpoint, .upload = upload, .count = 1});
  const UploadKey key = tested_.Key("a", token);
  const auto resume = [&]() -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(writer_,
                          tested_.store().ResumeUpload(
                              key, [](const StoredBlock&) { return absl::OkStatus(); }, "caller"));
    return absl::OkStatus();
  };
  FailEach(
      AllocationFailure::Threads::kAll, [&] { KeepRows(); },
      [&]() -> absl::Status {
        absl::Status resumed = resume();
        if (!resumed.ok()) {
          EXPECT_OK(resume());
        }
        return resumed;
      },
      [] {});
}

TEST_F(StoreAllocationTest, AnUploadIsDroppedOrNot) {
  const int64_t upload = UpsertAfter(50);
  const std::string token = fault::TokenOf(upload);
  const fault::Operation begun = {.kind = Kind::kBegin, .collection = "a", .upload = upload};
  const auto begin = [&] { ASSERT_OK(tested_.Begin("a", upload, token)); };
  begin();
  tested_.model().Apply(begun);
  const UploadKey key = tested_.Key("a", token);
  FailEachOf(
      {.kind = Kind::kDropUpload, .upload = upload},
      [&] { return tested_.store().DropUpload(key).status(); }, begun, begin);
}

TEST_F(StoreAllocationTest, ACheckOfTheWholeStoreFailsWithoutAnEffect) {
  ASSERT_OK(tested_.Upload("a", UpsertAfter(1)));
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    absl::Status status;
    failed = FailsAt(
        n, AllocationFailure::Threads::kAll, [&] { return tested_.store().Verify().status(); },
        &status);
    ASSERT_TRUE(status.ok() || (failed && absl::IsResourceExhausted(status))) << n << status;
  }
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreAllocationTest, AStoreIsOpenedOrNot) {
  ASSERT_OK(tested_.Upload("a", UpsertAfter(1)));
  tested_.Close();
  // Each start adds a commit to read, so each attempt starts with the same directory.
  const std::string data = tested_.Options().dir;
  const std::string first = dir_ / "first";
  std::filesystem::copy(data, first);
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    tested_.Close();
    std::filesystem::remove_all(data);
    std::filesystem::copy(first, data);
    StoreOptions options = tested_.Options();
    absl::Status status;
    failed = FailsAt(
        n, AllocationFailure::Threads::kThis,
        [&] { return Store::Open(std::move(options)).status(); }, &status);
    ASSERT_TRUE(status.ok() || (failed && absl::IsResourceExhausted(status))) << n << status;
    tested_.Reopen();
    ASSERT_TRUE(tested_.Same()) << "allocation " << n << ", " << status;
  }
}

// Memory ran out after the COMMIT of a compaction. The process did not know the new segment, so the
// next compaction dropped the records that its dead rows needed, and those rows came back.
TEST_F(StoreAllocationTest, ACompactionChangesNoRows) {
  const CompactOptions all = {
      .dead_share_max = 0, .small_bytes_max = int64_t{1} << 40, .small_segments_min = 2};
  FailEach(
      AllocationFailure::Threads::kAll,
      [&] {
        // Deletion records cause allocations too. This keeps their number bounded.
        if (number_ % 8 == 0) {
          ASSERT_OK(tested_.store().Compact(id_, all));
        }
        if (!FewRows() && tested_.store().Collections().front().segments_count > 1) return;
        for (const int64_t number : {1, 50}) ASSERT_OK(tested_.Upload("a", UpsertAfter(number)));
      },
      [&] { return tested_.store().Compact(id_, all).status(); }, [] {});
  ASSERT_OK(tested_.store().Compact(id_, all));
  EXPECT_TRUE(tested_.Same());
}

// A thread of the load ended the process if it had no memory for the rows that it had read.
TEST_F(StoreAllocationTest, ALoadFailsAndTheNextOneGivesEveryRow) {
  for (const int64_t number : {1, 50}) ASSERT_OK(tested_.Upload("a", UpsertAfter(number)));
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    int64_t rows = 0;
    absl::Status status;
    failed = FailsAt(
        n, AllocationFailure::Threads::kAll,
        [&] {
          const auto count = [&rows](const StoredBlock& block) {
            rows += block.ids->size();
            return absl::OkStatus();
          };
          return tested_.store().Load(id_, count, {.threads = 2});
        },
        &status);
    if (status.ok()) {
      EXPECT_EQ(rows, tested_.store().Collections().front().rows_count) << "allocation " << n;
    } else {
      ASSERT_TRUE(failed && absl::IsResourceExhausted(status)) << n << ": " << status;
    }
  }
}

}  // namespace
}  // namespace nearfield::store
