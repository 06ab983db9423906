// Tests that a search sees the epoch it began with, regardless of changes while it runs.

#include <cstdint>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

// Blocks the next search in the middle until it is released.
class HeldSearch {
 public:
  HeldSearch(FakeEngine& fake, const Collection& collection) {
    std::shared_future<void> let_go = let_go_.get_future().share();
    fake.device->OnSearch([this, let_go] {
      reached_.set_value();
      let_go.wait();
    });
    thread_ = std::thread([this, &fake, &collection] {
      SearchBatch batch;
      batch.queries = {{.vector = query_, .row_id = {}, .k = 100}};
      batch.parts = {.vectors = true, .payloads = true};
      result_ = fake.engine->Search(collection, batch);
    });
    reached_.get_future().wait();
    fake.device->OnSearch(nullptr);  // later searches do not block
  }

  absl::StatusOr<SearchResult> Finish() {
    let_go_.set_value();
    thread_.join();
    return std::move(result_);
  }

 private:
  const std::vector<float> query_ = {1, 0};
  std::promise<void> reached_;
  std::promise<void> let_go_;
  std::thread thread_;
  absl::StatusOr<SearchResult> result_ = absl::InternalError("not run");
};

class EngineSnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2, 3}, {1, 2, 3})));
    want_.ids = Ids({3, 2, 1});
    want_.scores = {3, 2, 1};
  }
  void ExpectTheFirstEpoch(const absl::StatusOr<SearchResult>& result) {
    ASSERT_OK(result);
    EXPECT_EQ(result->epoch, 1u);
    EXPECT_THAT(result->queries[0], BytesEqual(want_));
    EXPECT_EQ(result->queries[0].rows.size(), 3 * 2 * sizeof(float));
    EXPECT_EQ(result->queries[0].payloads.at(1), Payload(Id(uint64_t{2})));
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  Neighbors want_;
};

TEST_F(EngineSnapshotTest, RowsDeletedMeanwhileAreStillSeenAndTheirMemoryGoesLater) {
  HeldSearch search(fake_, *collection_);
  ASSERT_OK(collection_->Delete(Ids({3})));
  ASSERT_OK(collection_->Delete(Ids({1, 2})));
  EXPECT_EQ(collection_->Stats().rows_count, 0);
  EXPECT_GE(fake_.engine->GetCapacity().device_bytes_used, 3 * 20);  // the search pins them
  ExpectTheFirstEpoch(search.Finish());
  EXPECT_EQ(fake_.engine->GetCapacity().device_bytes_used, 0);
  EXPECT_EQ(fake_.engine->GetCapacity().host_bytes_used, 0);
}

TEST_F(EngineSnapshotTest, RowsCommittedAndMergedMeanwhileAreNotSeen) {
  HeldSearch search(fake_, *collection_);
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_OK(UploadAll(*collection_, PlainRows({100 + i}, {50})));
  }
  ASSERT_OK(collection_->Delete(Ids({2})));
  EXPECT_GT(fake_.device->rows_copied(), 0);
  ExpectTheFirstEpoch(search.Finish());
  const float query[2] = {1, 0};
  ASSERT_OK_AND_ASSIGN(const auto now, SearchOne(*fake_.engine, *collection_, query, 100));
  EXPECT_EQ(now.ids.size(), 42);
  EXPECT_EQ(now.ids.number(0), 100u);
}

// Without the pin a search would read freed planes here, which ASan detects.
TEST_F(EngineSnapshotTest, ASearchKeepsItsCollectionsRowsWhenMergesDropThem) {
  for (uint64_t i = 0; i < 15; ++i) {
    ASSERT_OK(UploadAll(*collection_, PlainRows({10 + i}, {-1})));
  }
  HeldSearch search(fake_, *collection_);
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_OK(UploadAll(*collection_, PlainRows({100 + i}, {50})));
  }
  ASSERT_OK_AND_ASSIGN(const auto result, search.Finish());
  EXPECT_EQ(result.epoch, 16u);
  EXPECT_EQ(result.queries[0].ids.size(), 18);
  EXPECT_EQ(result.queries[0].ids.number(0), 3u);
}

}  // namespace
}  // namespace nearfield::testing
