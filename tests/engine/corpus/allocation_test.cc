// Tests changes of a corpus while any allocation fails: the corpus shows exactly what the hook has
// recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/allocation_failure.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::testing {
namespace {

class CorpusAllocationTest : public ::testing::Test {
 protected:
  // Returns the ids of all rows, from a search with a large k.
  std::vector<uint64_t> Shown() {
    const float query[2] = {1, 0};
    const auto answer = SearchOne(*fake_.engine, *collection_, query, 1000);
    EXPECT_OK(answer);
    std::vector<uint64_t> ids;
    for (int64_t i = 0; i < answer->ids.size(); ++i) ids.push_back(answer->ids.number(i));
    return ids;
  }

  using Change = std::function<absl::Status(const CommitHook& hook)>;

  // Fails the 1st, 2nd, .. allocation of the change that `make` prepares, until a change makes
  // fewer allocations. Compares the collection with the changes that the hook has recorded.
  void FailEach(const std::function<Change(uint64_t n)>& make) {
    bool failed = true;
    for (int64_t n = 1; failed; ++n) {
      ASSERT_LT(n, 10'000) << "allocates without end";
      const Change change = make(static_cast<uint64_t>(n));
      const uint64_t before = collection_->Stats().epoch;
      const std::vector<uint64_t> shown = Shown();
      uint64_t recorded = before;
      const CommitHook hook = [&recorded](const PendingChange& pending) {
        recorded = pending.epoch;
        return absl::OkStatus();
      };
      absl::Status status;
      {
        const AllocationFailure failure(n);
        status = change(hook);
        failed = failure.happened();
      }
      EXPECT_EQ(collection_->Stats().epoch, recorded) << "allocation " << n << ", " << status;
      if (!status.ok()) {
        ASSERT_TRUE(failed && absl::IsResourceExhausted(status)) << n << ": " << status;
        EXPECT_EQ(recorded, before) << "allocation " << n << ": recorded, and refused";
        EXPECT_EQ(Shown(), shown) << "allocation " << n;
      }
    }
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
};

// Memory ran out after the record of a commit was durable. The commit was reported as failed, and
// every later one was refused until a restart.
TEST_F(CorpusAllocationTest, ACommitThatWasRecordedIsShown) {
  for (uint64_t part = 0; part < kGenerationsMax; ++part) {  // the next commit merges some
    ASSERT_OK(UploadAll(*collection_, PlainRows({100 + part}, {1})));
  }
  FailEach([this](uint64_t n) -> Change {
    const Corpus rows = PlainRows({n, n + 1}, {1, 2});
    std::shared_ptr<Upload> upload =
        *collection_->BeginUpload({.rows_max = 2, .mode = UploadMode::kUpsert});
    EXPECT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
    return [upload](const CommitHook& hook) { return upload->Commit(hook).status(); };
  });
}

TEST_F(CorpusAllocationTest, ADeletionThatWasRecordedIsShown) {
  std::vector<uint64_t> ids;
  std::vector<float> values;
  for (uint64_t id = 0; id < 500; ++id) {
    ids.push_back(id);
    values.push_back(static_cast<float>(id));
  }
  ASSERT_OK(UploadAll(*collection_, PlainRows(ids, values)));
  FailEach([this](uint64_t n) -> Change {
    return [this, ids = Ids({n})](const CommitHook& hook) {
      return collection_->Delete(ids, hook).status();
    };
  });
}

TEST_F(CorpusAllocationTest, AnUpdateThatWasRecordedIsShown) {
  ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2, 3}, {1, 2, 3})));
  const std::string payload(100, 'p');
  FailEach([&](uint64_t) -> Change {
    RowChanges changes = {.ids = Ids({1, 3}), .payloads = {&payload, nullptr}, .epochs = 1};
    return [this, changes](const CommitHook& hook) {
      return collection_
          ->Update([&](const auto&) -> absl::StatusOr<RowChanges> { return changes; }, hook)
          .status();
    };
  });
}

TEST_F(CorpusAllocationTest, ACompactionChangesNoAnswer) {
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    ASSERT_LT(n, 10'000) << "allocates without end";
    const auto number = static_cast<uint64_t>(2 * n);
    ASSERT_OK(UploadAll(*collection_, PlainRows({number, number + 1}, {1, 2})));
    ASSERT_OK(collection_->Delete(Ids({number})));
    const std::vector<uint64_t> shown = Shown();
    absl::Status status;
    {
      const AllocationFailure failure(n);
      status = collection_->Compact({.dead_share_max = 0, .generations_max = 1}).status();
      failed = failure.happened();
    }
    if (!status.ok()) {
      ASSERT_TRUE(failed && absl::IsResourceExhausted(status)) << n << ": " << status;
    }
    ASSERT_EQ(Shown(), shown) << "allocation " << n << ", " << status;
  }
}

}  // namespace
}  // namespace nearfield::testing
