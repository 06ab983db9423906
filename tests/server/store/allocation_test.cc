// Memory that runs out anywhere in a change of the store: the change is whole or has not happened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "server/store/store.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/allocation_failure.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::store {
namespace {

using testing::AllocationFailure;

class AllocationTest : public ::testing::Test {
 protected:
  using Call = std::function<absl::Status()>;

  AllocationTest() : tested_(dir_ / "data"), id_(tested_.Create("a", 1)) {}

  // Runs `call` with its n-th allocation failing. Returns whether it came that far.
  bool FailsAt(int64_t n, AllocationFailure::Threads threads, const Call& call,
               absl::Status* status) {
    const AllocationFailure failure(n, threads);
    *status = call();
    return failure.happened();
  }

  // Fails the 1st, 2nd, .. allocation of `call` until it runs through without. `prepare` comes
  // before each call and `succeeded` after each that is OK. After every call the process goes on
  // with a deletion, and the store is opened again.
  void FailEach(AllocationFailure::Threads threads, const std::function<void()>& prepare,
                const Call& call, const std::function<void()>& succeeded) {
    bool failed = true;
    for (int64_t n = 1; failed; ++n) {
      ASSERT_LT(n, 20'000) << "allocates without end";
      prepare();
      absl::Status status;
      failed = FailsAt(n, threads, call, &status);
      if (status.ok()) {
        succeeded();
      } else {
        ASSERT_TRUE(failed && absl::IsResourceExhausted(status)) << n << ": " << status;
      }
      ASSERT_TRUE(tested_.Same()) << "allocation " << n << ", " << status;
      ASSERT_OK(tested_.Delete("a", ++number_)) << "allocation " << n;
      writer_ = nullptr;
      tested_.Reopen();
      ASSERT_TRUE(tested_.Same()) << "allocation " << n << ", " << status;
    }
    EXPECT_OK(tested_.store().Verify());
  }

  // The first small upload after `number` that upserts. It may be uploaded any number of times.
  int64_t UpsertAfter(int64_t number) {
    const CollectionSpec& spec = tested_.model().collections.at("a").spec;
    for (;;) {
      const fault::UploadData data = fault::UploadData::Make(spec, ++number);
      if (data.mode == UploadMode::kUpsert && data.blocks.size() == 1 &&
          data.blocks.front().ids.size() >= 8 && data.blocks.front().ids.size() < 16) {
        return number;
      }
    }
  }

  bool FewRows() { return tested_.model().collections.at("a").rows.size() < 3; }

  // An upload that is ready for its commit.
  void PrepareUpload(int64_t upload) {
    const fault::ModelCollection& collection = tested_.model().collections.at("a");
    auto writer = tested_.Begin("a", upload);
    ASSERT_OK(writer);
    writer_ = *std::move(writer);
    ASSERT_OK(writer_->Sync());
    effect_ = fault::EffectOf(collection, fault::UploadData::Make(collection.spec, upload));
    epoch_ = collection.epoch + 1;
  }

  const TempDir dir_;
  ModelStore tested_;
  const int64_t id_;
  int64_t number_ = 0;  // of the last deletion
  uint64_t epoch_ = 0;
  fault::CommitEffect effect_;
  std::unique_ptr<SegmentWriter> writer_;
};

// Memory ran out between the catalogue's COMMIT and the tables in memory: the next commit took the
// same place in the chain, and the store never opened again.
TEST_F(AllocationTest, AnUploadCommitsAsAWholeOrNotAtAll) {
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

TEST_F(AllocationTest, ADeletionCommitsAsAWholeOrNotAtAll) {
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

// Memory ran out after the COMMIT of a compaction: the process did not know the new segment, the
// next compaction dropped the records that kept its dead rows dead, and those rows came back.
TEST_F(AllocationTest, ACompactionChangesNoRows) {
  const CompactOptions all = {
      .dead_share_max = 0, .small_bytes_max = int64_t{1} << 40, .small_segments_min = 2};
  FailEach(
      AllocationFailure::Threads::kAll,
      [&] {
        // Records of deletions are allocations too: without this they would become ever more.
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

// A thread of the load ended the process where it could not keep what it had read.
TEST_F(AllocationTest, ALoadFailsAndTheNextOneGivesEveryRow) {
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
