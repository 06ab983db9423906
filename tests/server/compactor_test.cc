// Tests of compaction, on demand and in the background, over the real engine and store: it frees
// the space of deleted rows, and no answer changes.
#include "server/collections/compactor.h"

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/durable_rows.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

class CompactorTest : public DurableCatalogFixture {
 protected:
  void SetUp() override {
    DurableCatalogFixture::SetUp();
    compactor_ = std::make_unique<Compactor>(
        [this] { return catalog_->List(); },
        [](const std::string&, const absl::Status& status) { ADD_FAILURE() << status; });
  }
  void TearDown() override { compactor_ = nullptr; }

  // Makes a collection "a" with the rows [0, end).
  std::shared_ptr<NamedCollection> MakeRows(uint64_t end) {
    auto named = Make("a");
    Upload(named, 0, end, seed_);
    return named;
  }
  int64_t StoredBytes() const { return catalog_->store()->Collections().front().bytes; }

  const uint64_t seed_ = testing::TestSeed();
  std::unique_ptr<Compactor> compactor_;
};

TEST_F(CompactorTest, WhatTheBackgroundLeavesComesBackWhenAskedForAndNoAnswerChanges) {
  const auto named = MakeRows(1000);
  Upload(named, 1000, 3000, seed_ + 1);
  Delete(*named, 100, 200);
  Delete(*named, 2000, 2100);
  const std::string before = Answer(*named);
  const CollectionStats held = named->collection->Stats();
  const int64_t stored = StoredBytes();
  ASSERT_EQ(held.rows_deleted, 200);
  ASSERT_OK_AND_ASSIGN(const auto given, compactor_->CompactNow(named, Never));
  EXPECT_EQ(given.rows, 200);
  EXPECT_EQ(given.device_bytes, held.device_bytes - named->collection->Stats().device_bytes);
  EXPECT_EQ(given.stored_rows, 200);
  EXPECT_GE(given.stored_bytes, 200 * kDim * 4);
  EXPECT_EQ(StoredBytes(), stored - given.stored_bytes);
  EXPECT_EQ(named->collection->Stats().rows_deleted, 0);
  EXPECT_EQ(Answer(*named), before);
  ASSERT_OK_AND_ASSIGN(const auto again, compactor_->CompactNow(named, Never));
  EXPECT_EQ(again.rows, 0);
  EXPECT_EQ(again.stored_rows, 0);
  compactor_ = nullptr;
  Open();
  EXPECT_EQ(Answer(**catalog_->Find("a")), before);
}

// Regression: memory ran out while the background listed the collections, and the process ended.
TEST_F(CompactorTest, ABackgroundWithoutMemoryGoesOnAtTheNextNudge) {
  compactor_ = nullptr;
  const auto named = MakeRows(1000);
  Delete(*named, 0, 900);
  std::promise<void> failed;
  std::promise<void> listed;
  int lists = 0;
  Compactor background(
      [&]() -> std::vector<std::shared_ptr<NamedCollection>> {
        if (++lists == 1) {
          failed.set_value();
          throw std::bad_alloc();
        }
        if (lists == 2) listed.set_value();
        return {named};
      },
      [](const std::string&, const absl::Status& status) { ADD_FAILURE() << status; });
  background.Nudge();
  failed.get_future().wait();
  background.Nudge();
  listed.get_future().wait();
  ASSERT_OK(background.CompactNow(named, Never));  // after the background's own step
  EXPECT_EQ(named->collection->Stats().rows_deleted, 0);
}

TEST_F(CompactorTest, AnswersStayTheSameWhileChangesAndCompactionsGoOn) {
  const auto named = MakeRows(2000);
  std::atomic<bool> done{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      while (!done) EXPECT_OK(compactor_->CompactNow(named, Never));
    });
  }
  for (uint64_t step = 0; step < 20; ++step) {
    Delete(*named, step * 100, step * 100 + 50);
    const std::string after_delete = Answer(*named);
    EXPECT_EQ(Answer(*named), after_delete);
    Upload(named, step * 100, step * 100 + 25, seed_ + step);
    const std::string after_upload = Answer(*named);
    EXPECT_EQ(Answer(*named), after_upload);
    compactor_->Nudge();
  }
  done = true;
  for (std::thread& caller : callers) caller.join();
  const std::string last = Answer(*named);
  ASSERT_OK(compactor_->CompactNow(named, Never));
  EXPECT_EQ(named->collection->Stats().rows_deleted, 0);
  EXPECT_EQ(Answer(*named), last);
  compactor_ = nullptr;
  Open();
  EXPECT_EQ(Answer(**catalog_->Find("a")), last);
}

TEST_F(CompactorTest, OneRunsAtATimeAndWhoWaitsCanGiveUp) {
  const auto named = MakeRows(100);
  Delete(*named, 0, 10);
  std::promise<void> begun;
  std::promise<void> go_on;
  std::shared_future<void> released = go_on.get_future().share();
  std::atomic<bool> first{true};
  auto running = std::async(std::launch::async, [&] {
    return compactor_->CompactNow(named, [&, caller = std::this_thread::get_id()] {
      // Hold the compactor's thread here. The caller's thread also polls this while it waits.
      if (std::this_thread::get_id() != caller && first.exchange(false)) {
        begun.set_value();
        released.wait();
      }
      return false;
    });
  });
  begun.get_future().wait();
  EXPECT_THAT(compactor_->CompactNow(named, [] { return true; }), StatusIs(kCancelled));
  go_on.set_value();
  ASSERT_OK_AND_ASSIGN(const auto given, running.get());
  EXPECT_EQ(given.rows, 10);
}

TEST_F(CompactorTest, ADroppedCollectionIsAborted) {
  const auto named = MakeRows(100);
  ASSERT_OK(catalog_->Drop("a"));
  EXPECT_THAT(compactor_->CompactNow(named, Never), StatusIs(kAborted));
}

TEST_F(CompactorTest, WithoutMemoryForACopyTheDiskComesBackAllTheSame) {
  const auto named = Make("a");
  constexpr uint64_t kRows = 50'000;
  uint64_t rows = 0;
  while (named->collection->BeginUpload({.rows_max = kRows}).ok()) {
    Upload(named, rows, rows + kRows, seed_ + rows);
    rows += kRows;
  }
  ASSERT_GT(rows, 0u);
  Delete(*named, 0, 100);
  const std::string before = Answer(*named);
  EXPECT_THAT(compactor_->CompactNow(named, Never), StatusIs(kResourceExhausted));
  EXPECT_EQ(catalog_->store()->Collections().front().rows_stored, static_cast<int64_t>(rows) - 100);
  EXPECT_EQ(Answer(*named), before);
}

TEST_F(CompactorTest, TheBackgroundGivesTheDiskBackWithoutMemoryForACopy) {
  std::promise<absl::Status> reported;
  compactor_ = std::make_unique<Compactor>(
      [this] { return catalog_->List(); },
      [&](const std::string&, const absl::Status& status) { reported.set_value(status); });
  constexpr uint64_t kRows = 50'000;
  const auto named = MakeRows(kRows);
  Delete(*named, 0, kRows / 2);
  const std::string before = Answer(*named);
  std::vector<std::unique_ptr<nearfield::Upload>> taken;  // takes all memory
  for (int64_t rows = kRowsMax; rows > 0;) {
    auto upload = named->collection->BeginUpload({.rows_max = rows});
    if (upload.ok()) {
      taken.push_back(*std::move(upload));
    } else {
      rows /= 2;
    }
  }
  compactor_->Nudge();
  EXPECT_THAT(reported.get_future().get(), StatusIs(kResourceExhausted));
  EXPECT_EQ(catalog_->store()->Collections().front().rows_stored, kRows / 2);
  EXPECT_EQ(Answer(*named), before);
}

}  // namespace
}  // namespace nearfield::server
