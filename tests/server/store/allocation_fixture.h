// StoreAllocationTest: changes a store while any allocation fails, and checks that each change
// happens as a whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "server/store/store.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/allocation_failure.h"

namespace nearfield::store {

using testing::AllocationFailure;

class StoreAllocationTest : public ::testing::Test {
 protected:
  using Call = std::function<absl::Status()>;

  StoreAllocationTest() : tested_(dir_ / "data"), id_(tested_.Create("a", 1)) {}

  // Runs `call` with its n-th allocation failing. Returns whether there was such an allocation.
  bool FailsAt(int64_t n, AllocationFailure::Threads threads, const Call& call,
               absl::Status* status) {
    const AllocationFailure failure(n, threads);
    *status = call();
    return failure.happened();
  }

  // Calls `call` with its 1st, 2nd, .. allocation failing, until a call makes fewer allocations.
  // Calls `prepare` before each call, and `succeeded` after each call that returned OK. After every
  // call it makes a deletion in the same process, and opens the store again.
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
      ASSERT_OK(tested_.store().Verify()) << "allocation " << n << ", " << status;
      ASSERT_OK(tested_.Delete("a", ++number_)) << "allocation " << n;
      writer_ = nullptr;
      tested_.Reopen();
      ASSERT_TRUE(tested_.Same()) << "allocation " << n << ", " << status;
    }
    EXPECT_OK(tested_.store().Verify());
  }

  // Returns the first small upsert after upload `number`. It can be uploaded any number of times.
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

  // FailEach for one operation of the model. `undo` is the operation that reverts it.
  void FailEachOf(const fault::Operation& operation, const Call& call, const fault::Operation& undo,
                  const std::function<void()>& take_back) {
    bool done = false;
    FailEach(
        AllocationFailure::Threads::kThis,
        [&] {
          KeepRows();
          if (!std::exchange(done, false)) return;
          take_back();
          tested_.model().Apply(undo);
        },
        call,
        [&] {
          tested_.model().Apply(operation);
          done = true;
        });
  }

  // Keeps enough rows for the next deletion, and few deletion records.
  void KeepRows() {
    if (number_ % 8 == 7) {
      ASSERT_OK(tested_.store().Compact(id_, {.dead_share_max = 0}));
    }
    if (FewRows()) {
      ASSERT_OK(tested_.Upload("a", UpsertAfter(1)));
    }
  }

  bool FewRows() { return tested_.model().collections.at("a").rows.size() < 3; }

  // Prepares an upload for its commit.
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
  int64_t number_ = 0;  // number of the last deletion
  uint64_t epoch_ = 0;
  fault::CommitEffect effect_;
  std::unique_ptr<SegmentWriter> writer_;
};

}  // namespace nearfield::store
