// Tests that ordinals are reused: uploads can continue forever, and no filter chooses a row by the
// ordinal that another row had.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/ordinal_reuse_fixture.h"
#include "tests/testing/forwarding_collection.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::BytesEqual;

constexpr uint64_t kReusedIdsMax = 500;

// Calls `looking` before each LiveRows.
class WatchedCollection final : public testing::ForwardingCollection {
 public:
  WatchedCollection(std::shared_ptr<Collection> watched, std::function<void()> looking)
      : ForwardingCollection(std::move(watched)), looking_(std::move(looking)) {}
  absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch* at) const override {
    looking_();
    return target()->LiveRows(at);
  }

 private:
  const std::function<void()> looking_;
};

// Makes random changes with ids from a small range, so that rows are replaced.
class CollectionOrdinalsUpsertTest : public CollectionOrdinalsTest {
 protected:
  FilterTree DrawFilter() {
    return RandomFilter(random_, specs_, static_cast<int>(random_.Between(1, 4)), kReusedIdsMax);
  }

  void UploadSome() {
    const bool fails = random_.OneIn(8) && !model_.rows.empty();
    std::vector<uint64_t> ids;
    for (int64_t count = random_.Between(1, random_.OneIn(3) ? 4 : 400); count > 0; --count) {
      ids.push_back(static_cast<uint64_t>(random_.Between(0, kReusedIdsMax)));
    }
    if (fails) ids.push_back(std::get<uint64_t>(model_.rows.begin()->first));
    const absl::Status uploaded = Upload(fails ? UploadMode::kInsert : UploadMode::kUpsert, ids,
                                         [this] { return random_.Between(-3, 60); });
    if (fails) {
      ASSERT_THAT(uploaded, StatusIs(kAlreadyExists));
    } else {
      ASSERT_OK(uploaded);
    }
  }

  // Other changes come between the choice and the deletion. The chosen rows are deleted, but no row
  // that has taken over the id or the ordinal of one of them since.
  void DeleteByFilter() {
    const FilterTree tree = And({DrawFilter(), DrawFilter()});
    const RowModel before = model_;
    const ChosenRows chosen = Choose(tree, nullptr);
    for (int64_t changes = random_.Between(0, 4); changes > 0; --changes) {
      UploadSome();
      if (random_.OneIn(2)) Tidy();
      if (HasFatalFailure()) return;
    }
    RowModel next = model_;
    for (const Id& id : PassingIds(tree, specs_, before)) {
      const auto now = next.rows.find(id);
      if (now != next.rows.end() && now->second.payload == before.rows.at(id).payload) {
        next.rows.erase(now);
      }
    }
    ASSERT_OK_AND_ASSIGN(const auto deleted, DeleteRows(*named_, chosen));
    ASSERT_EQ(deleted.rows_deleted, static_cast<int64_t>(model_.rows.size() - next.rows.size()));
    next.epoch = deleted.epoch;
    model_ = std::move(next);
  }
};

// After 2^32 uploaded rows, dead ones included, every upload was refused until a restart.
TEST_F(CollectionOrdinalsUpsertTest, UpsertsOfManyTimesTheOrdinalsGoOn) {
  constexpr int64_t kOrdinalsMax = 20'000;
  Start(kOrdinalsMax);
  std::deque<Held> held;
  for (int step = 0; rows_uploaded_ < testing::RandomRounds(12) * kOrdinalsMax; ++step) {
    SCOPED_TRACE(step);
    UploadSome();
    if (random_.OneIn(10)) DeleteByFilter();
    if (random_.OneIn(3)) Tidy();
    if (random_.OneIn(20)) {
      ASSERT_OK(named_->collection->Compact({.dead_share_max = 0, .generations_max = 1}));
    }
    if (random_.OneIn(10)) {
      held.push_back({.at = named_->collection->PinEpoch(), .model = model_});
      if (held.size() > 3) held.pop_front();
    }
    ExpectRight(DrawFilter(), {.at = nullptr, .model = model_});
    if (!held.empty()) {
      ExpectRight(DrawFilter(),
                  held[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(held.size())))]);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_F(CollectionOrdinalsTest, AHeldEpochKeepsItsOrdinalsAndItsAnswers) {
  Start(10'000);
  ASSERT_OK(Upsert({0, 2000}, 1));
  std::shared_ptr<const PinnedEpoch> held = named_->collection->PinEpoch();
  const FilterTree one = Compare("n", Comparison::kEqual, Integers({1}));
  const Neighbors first = Answer(one, held);
  EXPECT_EQ(first.ids.size(), 2000);
  const std::vector<uint64_t> kept = Ordinals(held.get());
  for (int64_t n = 2; n < 20; ++n) {
    ASSERT_OK(Upsert({0, 2000}, n));
    Tidy();
    const std::vector<uint64_t> now = Ordinals(nullptr);
    for (size_t word = 0; word < kept.size(); ++word) ASSERT_EQ(now[word] & kept[word], 0u);
    ASSERT_THAT(Answer(one, held), BytesEqual(first));
    ASSERT_EQ(Answer(one, nullptr).ids.size(), 0);
  }
  held = nullptr;
  Tidy();
  ASSERT_OK(Upsert({0, 2000}, 20));
  EXPECT_EQ(Ordinals(nullptr), kept) << "the lowest are free again";
}

// Failed inserts kept their ordinals forever.
TEST_F(CollectionOrdinalsTest, FailedUploadsGiveTheirOrdinalsBack) {
  Start(3000);
  ASSERT_OK(Upsert({0, 1000}, 1));
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Upload(UploadMode::kInsert, IdsOf({500, 1500}), [] { return 2; }),
                StatusIs(kAlreadyExists));
  }
  ASSERT_OK(Upload(UploadMode::kInsert, IdsOf({1000, 2000}), [] { return 3; }));
  EXPECT_EQ(Ordinals(nullptr).size(), 2000u / 64 + 1);
  EXPECT_EQ(Answer(Exists("n"), nullptr).ids.size(), 2000);
  EXPECT_EQ(Answer(Compare("n", Comparison::kEqual, Integers({2})), nullptr).ids.size(), 0);
}

// A filter also chooses dead rows. By the time of the deletion, their ordinals may belong to other
// rows.
TEST_F(CollectionOrdinalsTest, ADeletionByFilterSparesARowWithTheOrdinalOfADeadOne) {
  Start(10'000);
  ASSERT_OK(Upsert({0, 2000}, 1));
  ASSERT_OK(Upsert({2000, 2010}, 1));
  const std::vector<uint64_t> dead = Ordinals(nullptr);
  Delete({0, 2000});
  const ChosenRows chosen = Choose(Compare("n", Comparison::kEqual, Integers({1})), nullptr);
  EXPECT_GT(chosen.rows_count_max, 2000) << "dead rows are chosen, too";
  Tidy();
  ASSERT_OK(Upsert({3000, 5000}, 2));
  EXPECT_EQ(Ordinals(nullptr), dead) << "those of the dead rows";
  ASSERT_OK_AND_ASSIGN(const auto deleted, DeleteRows(*named_, chosen));
  EXPECT_EQ(deleted.rows_deleted, 10);
  EXPECT_EQ(Answer(Exists("n"), nullptr).ids.size(), 2000);
}

TEST_F(CollectionOrdinalsTest, WithoutFreeOrdinalsAnUploadIsRefusedWithTheNumbers) {
  Start(1000);
  ASSERT_OK(Upsert({0, 600}, 1));
  const std::shared_ptr<const PinnedEpoch> held = named_->collection->PinEpoch();
  Tidy();
  EXPECT_THAT(Upsert({0, 600}, 2), FailsWith(kResourceExhausted, "600 consecutive ones",
                                             "400 of the collection's 1000 are free"));
  EXPECT_EQ(Answer(Compare("n", Comparison::kEqual, Integers({1})), nullptr).ids.size(), 600);
  ASSERT_OK(Upsert({0, 400}, 3));
}

// During a search for dead rows, a merge freed rows that an earlier search had found. An upload
// took their ordinals, and its rows were dropped in place of the dead ones.
TEST_F(CollectionOrdinalsTest, NoOrdinalIsReleasedWhileDeadRowsAreLookedFor) {
  Start(100'000);
  ASSERT_OK(Upsert({0, 4000}, 1));
  Delete({0, 1500});
  Tidy();  // dropped, but fewer than half of their chunk: they stay in it until the next merge
  Delete({1500, 2700});
  std::vector<std::thread> others;
  WatchedCollection watched(named_->collection, [&] {
    if (!others.empty()) return;
    others.emplace_back([&] {
      EXPECT_OK(Upsert({4000, 6000}, 2));  // merged with the chunk
      EXPECT_OK(Upsert({6000, 7500}, 3));
    });
    others.back().join();
  });
  ASSERT_OK(named_->attributes->Tidy(watched, CollectionAttributes::Drop::kMany, Never));
  ASSERT_FALSE(others.empty());
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(Upsert({8000, 10'000}, 4));
    Tidy();
    for (int64_t n = 1; n < 5; ++n) {
      ExpectRight(Compare("n", Comparison::kEqual, Integers({n})),
                  {.at = nullptr, .model = model_});
    }
  }
}

}  // namespace
}  // namespace nearfield::server
