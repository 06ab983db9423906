// Tests of waits for an epoch, and of epochs that are kept for pages.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/scheduler/epoch_waiters.h"
#include "server/scheduler/pinned_snapshot_cache.h"
#include "server/scheduler/retry_hint.h"
#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::server {
namespace {

using testing::FakeEngine;
using testing::MakeFakeEngine;
using testing::PlainRows;
using testing::UploadAll;

class EpochsFixture : public ::testing::Test {
 protected:
  void Commit() { ASSERT_OK(UploadAll(*collection_, PlainRows({next_id_++}, {1}))); }
  // Keeps the current epoch, and then commits the next one.
  void KeepAndCommit(PinnedSnapshotCache* kept, const std::string& caller,
                     EpochHold* hold = nullptr) {
    ASSERT_OK(kept->Keep(caller, collection_, collection_->PinEpoch(), hold));
    Commit();
  }
  EpochWait Wait(uint64_t epoch) {
    return {.collection = collection_,
            .epoch = epoch,
            .deadline = clock_.Now() + std::chrono::milliseconds(1000)};
  }
  // Begins a wait. Returns the status that it ends with.
  static std::future<absl::Status> Await(EpochWaiters* waiters, EpochWait wait) {
    const auto told = std::make_shared<std::promise<absl::Status>>();
    wait.done = [told](absl::Status status) { told->set_value(std::move(status)); };
    waiters->Await(std::move(wait));
    return told->get_future();
  }

  FakeClock clock_;
  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(testing::kPlainSpec);
  uint64_t next_id_ = 1;
};

using EpochWaitersTest = EpochsFixture;
using PinnedSnapshotCacheTest = EpochsFixture;

TEST_F(EpochWaitersTest, AWaitEndsWhenItsEpochIsThere) {
  EpochWaiters waiters(10, &clock_);
  EXPECT_OK(Await(&waiters, Wait(0)).get());
  std::future<absl::Status> second = Await(&waiters, Wait(2));
  std::future<absl::Status> first = Await(&waiters, Wait(1));
  Commit();
  waiters.Nudge();
  EXPECT_OK(first.get());
  EXPECT_EQ(second.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  Commit();
  waiters.Nudge();
  EXPECT_OK(second.get());
}

TEST_F(EpochWaitersTest, AWaitEndsWithItsDeadlineItsCallerOrTheServer) {
  std::future<absl::Status> closed;
  {
    EpochWaiters waiters(2, &clock_);
    EpochWait wait = Wait(9);
    wait.cancelled = MakeCancelFlag();
    const CancelFlag flag = wait.cancelled;
    std::future<absl::Status> left = Await(&waiters, std::move(wait));
    std::future<absl::Status> late = Await(&waiters, Wait(7));
    const absl::Status full = Await(&waiters, Wait(7)).get();
    EXPECT_THAT(full, FailsWith(kResourceExhausted, "limit is 2"));
    EXPECT_TRUE(RetryAfterMs(full).has_value());
    flag->store(true);
    EXPECT_THAT(left.get(), StatusIs(kCancelled));
    clock_.Advance(std::chrono::milliseconds(1000));
    EXPECT_THAT(late.get(), FailsWith(kFailedPrecondition, "min_epoch: 7", "at epoch 0"));
    closed = Await(&waiters, Wait(7));
  }
  EXPECT_THAT(closed.get(), StatusIs(kUnavailable));
}

TEST_F(EpochWaitersTest, AWaitEndsWithItsCollection) {
  EpochWaiters waiters(10, &clock_);
  std::atomic<bool> dropped{false};
  EpochWait wait = Wait(9);
  wait.dropped = [&] { return dropped.load(); };
  std::future<absl::Status> told = Await(&waiters, std::move(wait));
  dropped = true;
  EXPECT_THAT(told.get(), FailsWith(kNotFound, "9", "dropped"));
}

TEST_F(PinnedSnapshotCacheTest, AnEpochIsKeptForAWhileAfterItWasAskedForLast) {
  PinnedSnapshotCache kept({.keep = std::chrono::milliseconds(100), .epochs_max = 2}, &clock_);
  EXPECT_NE(kept.Find("a", collection_, 0), nullptr) << "the current one is always there";
  KeepAndCommit(&kept, "a");
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(std::chrono::milliseconds(99));
    const auto found = kept.Find("a", collection_, 0);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->epoch(), 0u);
    EXPECT_EQ(found->rows_count(), 0);
  }
  clock_.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(kept.Find("a", collection_, 0), nullptr);
  EXPECT_EQ(kept.Find("a", collection_, 1)->epoch(), 1u);
  EXPECT_EQ(kept.Find("a", collection_, 2), nullptr);
}

// Any caller could keep an epoch of another one, and a place of that one's quota, for ever.
TEST_F(PinnedSnapshotCacheTest, OnlyItsOwnCallerRenewsAnEpoch) {
  PinnedSnapshotCache kept({.keep = std::chrono::milliseconds(100), .epochs_max = 2}, &clock_);
  KeepAndCommit(&kept, "a");
  clock_.Advance(std::chrono::milliseconds(99));
  EXPECT_NE(kept.Find("b", collection_, 0), nullptr) << "others read it while it is kept";
  clock_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(kept.Find("b", collection_, 0), nullptr);
  EXPECT_EQ(kept.Find("a", collection_, 0), nullptr);
  // A caller that keeps the same epoch renews its own entry, even if another's comes first.
  const auto pin = collection_->PinEpoch();
  ASSERT_OK(kept.Keep("b", collection_, pin));
  KeepAndCommit(&kept, "a");
  clock_.Advance(std::chrono::milliseconds(60));
  EXPECT_NE(kept.Find("b", collection_, 1), nullptr);
  clock_.Advance(std::chrono::milliseconds(60));
  EXPECT_NE(kept.Find("b", collection_, 1), nullptr) << "renewed 60 ms ago";
  clock_.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(kept.Find("b", collection_, 1), nullptr);
}

TEST_F(PinnedSnapshotCacheTest, WhatIsKeptIsBoundedAndGivenUp) {
  PinnedSnapshotCache kept({.keep = std::chrono::milliseconds(100), .epochs_max = 2}, &clock_);
  std::vector<std::weak_ptr<const PinnedEpoch>> pins;
  for (int i = 0; i < 3; ++i) {
    auto pin = collection_->PinEpoch();
    pins.emplace_back(pin);
    ASSERT_OK(kept.Keep("a", collection_, std::move(pin)));
    Commit();
  }
  EXPECT_TRUE(pins[0].expired()) << "two are kept";
  EXPECT_FALSE(pins[1].expired());
  clock_.Advance(std::chrono::milliseconds(50));
  EXPECT_NE(kept.Find("a", collection_, 2), nullptr);
  clock_.Advance(std::chrono::milliseconds(60));
  kept.DropExpired();
  // The thread of PinnedSnapshotCache may be dropping it concurrently.
  EXPECT_TRUE(Eventually([&] { return pins[1].expired(); }));
  EXPECT_FALSE(pins[2].expired());
  const std::shared_ptr<Collection> other = *fake_.engine->CreateCollection(testing::kPlainSpec);
  EXPECT_EQ(kept.Find("a", other, 2), nullptr) << "an epoch is of its collection";
  kept.Forget(collection_.get());
  EXPECT_TRUE(pins[2].expired());
}

// Regression: all callers shared one limit on epochs, so that any caller could end the pages of
// another.
TEST_F(PinnedSnapshotCacheTest, ACallerBeyondItsNumberLosesItsOwnOldest) {
  PinnedSnapshotCache kept({.epochs_max = 2}, &clock_);
  KeepAndCommit(&kept, "honest");
  for (int i = 0; i < 4; ++i) KeepAndCommit(&kept, "greedy");
  EXPECT_NE(kept.Find("a", collection_, 0), nullptr);
  EXPECT_EQ(kept.Find("a", collection_, 2), nullptr);
  EXPECT_NE(kept.Find("a", collection_, 3), nullptr);
  EXPECT_NE(kept.Find("a", collection_, 4), nullptr);
}

// Regression: one client with many names took all epochs, and every new caller was refused.
TEST_F(PinnedSnapshotCacheTest, BeyondAllCallersNumberTheOneWithTheMostLosesItsOldest) {
  PinnedSnapshotCache kept({.epochs_max = 3, .epochs_total_max = 3}, &clock_);
  for (const char* caller : {"one", "two", "two", "new"}) KeepAndCommit(&kept, caller);
  EXPECT_EQ(kept.Find("a", collection_, 1), nullptr) << "the older one of the caller with two";
  KeepAndCommit(&kept, "newer");
  EXPECT_EQ(kept.Find("a", collection_, 0), nullptr) << "among equals the oldest of all";
  EXPECT_NE(kept.Find("a", collection_, 2), nullptr);
  EXPECT_NE(kept.Find("a", collection_, 3), nullptr);
}

TEST_F(PinnedSnapshotCacheTest, OneMoreThanAllCallersMayHaveIsRefusedWhereStreamsHoldAll) {
  PinnedSnapshotCache kept({.epochs_max = 2, .epochs_total_max = 2}, &clock_);
  EpochHold first;
  EpochHold second;
  KeepAndCommit(&kept, "a", &first);
  KeepAndCommit(&kept, "b", &second);
  const absl::Status full = kept.Keep("c", collection_, collection_->PinEpoch());
  EXPECT_THAT(full, FailsWith(kResourceExhausted, "limit is 2"));
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  second.reset();
  EXPECT_OK(kept.Keep("c", collection_, collection_->PinEpoch()));
  EXPECT_NE(kept.Find("a", collection_, 0), nullptr);
  EXPECT_EQ(kept.Find("a", collection_, 1), nullptr);
}

// Regression: a SearchAll whose reader paused longer than the lifetime of an epoch lost it at the
// next commit.
TEST_F(PinnedSnapshotCacheTest, AHeldEpochStaysWhateverTheTimeAndTheNumber) {
  PinnedSnapshotCache kept({.keep = std::chrono::milliseconds(100), .epochs_max = 2}, &clock_);
  EpochHold first;
  EpochHold second;
  KeepAndCommit(&kept, "a", &first);
  KeepAndCommit(&kept, "a", &second);
  EXPECT_THAT(kept.Keep("a", collection_, collection_->PinEpoch()),
              FailsWith(kResourceExhausted, "epochs_kept_max = 2"));
  clock_.Advance(std::chrono::milliseconds(1000));
  kept.DropExpired();
  EXPECT_NE(kept.Find("a", collection_, 0), nullptr);
  first.reset();
  EXPECT_NE(kept.Find("a", collection_, 0), nullptr)
      << "for the cursor that goes on after the stream";
  clock_.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(kept.Find("a", collection_, 0), nullptr);
  EXPECT_NE(kept.Find("a", collection_, 1), nullptr);
  EXPECT_OK(kept.Keep("a", collection_, collection_->PinEpoch()));
}

// Regression: kept epochs held the rows of every replaced corpus, so that a reader blocked uploads.
TEST_F(PinnedSnapshotCacheTest, EpochsThatPinTooMuchMemoryAreGivenUpWhereMostIsPinned) {
  const auto replace = [&](int64_t rows_count) {
    ASSERT_OK_AND_ASSIGN(auto upload, collection_->BeginUpload(
                                          {.rows_max = rows_count, .mode = UploadMode::kReplace}));
    std::vector<uint64_t> ids;
    for (int64_t i = 0; i < rows_count; ++i) ids.push_back(next_id_++);
    const auto rows = PlainRows(ids, std::vector<float>(ids.size(), 1.0f));
    ASSERT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
    ASSERT_OK(upload->Commit());
  };
  replace(1000);
  const auto large = collection_->PinEpoch();
  replace(10);
  const int64_t large_bytes = collection_->BytesHeldBy({large}).host;
  EXPECT_GT(large_bytes, 8000) << "the ids alone";
  EXPECT_EQ(collection_->BytesHeldBy({large, large}).host, large_bytes) << "counted once";
  EXPECT_EQ(collection_->BytesHeldBy({collection_->PinEpoch()}).host, 0);

  PinnedSnapshotCache::Options options;
  options.bytes_max.host = large_bytes;
  PinnedSnapshotCache kept(options, &clock_);
  ASSERT_OK(kept.Keep("large", collection_, large));
  EpochHold hold;
  ASSERT_OK(kept.Keep("small", collection_, collection_->PinEpoch(), &hold));
  kept.Trim();
  EXPECT_NE(kept.Find("a", collection_, 1), nullptr) << "within the limit";
  replace(10);
  kept.Trim();
  EXPECT_EQ(kept.Find("a", collection_, 1), nullptr) << "of the caller that pins the most";
  EXPECT_NE(kept.Find("a", collection_, 2), nullptr);
  ASSERT_OK(kept.Keep("small", collection_, large));
  EXPECT_EQ(kept.Find("a", collection_, 1), nullptr)
      << "it does not fit beside what a stream holds";
  EXPECT_NE(kept.Find("a", collection_, 2), nullptr);
}

}  // namespace
}  // namespace nearfield::server
