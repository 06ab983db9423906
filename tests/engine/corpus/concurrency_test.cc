// Tests concurrent uploads, deletions and searches. Also run under ThreadSanitizer.

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

constexpr uint64_t kGroup = 4;  // rows that one commit makes visible together

// Each upload commits ids 4g .. 4g+3, and each deletion removes all four. So a search sees all rows
// of a group or none; else the snapshot was torn.
void ExpectWholeGroups(const Neighbors& answer) {
  std::set<uint64_t> ids;
  for (int64_t i = 0; i < answer.ids.size(); ++i) ids.insert(answer.ids.number(i));
  EXPECT_EQ(ids.size(), static_cast<size_t>(answer.ids.size()));
  for (const uint64_t id : ids) {
    for (uint64_t i = 0; i < kGroup; ++i) EXPECT_EQ(ids.count(id / kGroup * kGroup + i), 1u);
  }
}

Corpus Group(uint64_t group) {
  std::vector<uint64_t> ids;
  std::vector<float> values;
  for (uint64_t i = 0; i < kGroup; ++i) {
    ids.push_back(group * kGroup + i);
    values.push_back(static_cast<float>(group % 5));
  }
  return PlainRows(ids, values);
}

TEST(CorpusConcurrencyTest, SearchesSeeWholeCommitsAndWholeDeletions) {
  FakeEngine fake = MakeFakeEngine();
  auto collection = *fake.engine->CreateCollection(kPlainSpec);
  std::atomic<int> writers{3};
  std::vector<std::thread> threads;
  for (uint64_t writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&, writer] {
      Random random(TestSeed() + writer);
      for (uint64_t i = 0; i < 60; ++i) {
        const uint64_t group = i * 3 + writer;
        EXPECT_OK(UploadAll(*collection, Group(group)));
        if (random.OneIn(2)) {
          const auto deleted = collection->Delete(Group(group).ids);
          EXPECT_OK(deleted);
          EXPECT_EQ(deleted->rows_deleted, static_cast<int64_t>(kGroup));
        }
      }
      --writers;
    });
  }
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      const float query[2] = {1, 0};
      uint64_t epoch = 0;
      do {
        SearchBatch batch;
        batch.queries = {{.vector = query, .row_id = {}, .k = 1000}};
        batch.parts = {.vectors = true, .payloads = true};
        ASSERT_OK_AND_ASSIGN(const auto result, fake.engine->Search(*collection, batch));
        EXPECT_GE(result.epoch, epoch);  // epochs never go back
        epoch = result.epoch;
        ExpectWholeGroups(result.queries[0]);
        (void)collection->Stats();
      } while (writers > 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  collection.reset();
  EXPECT_EQ(fake.engine->GetCapacity().device_bytes_used, 0);
  EXPECT_EQ(fake.engine->GetCapacity().host_bytes_used, 0);
}

TEST(CorpusConcurrencyTest, OfUploadsWithTheSameIdExactlyOneCommits) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  constexpr uint64_t kRounds = 40;
  std::atomic<int> committed{0};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t round = 0; round < kRounds; ++round) {
        // Each thread inserts one row of its own, and one row that all threads insert.
        const auto result = UploadAll(
            *collection, PlainRows({round, 1'000'000 + round * 4 + thread}, {1.0f, 2.0f}));
        if (result.ok()) {
          ++committed;
        } else {
          EXPECT_EQ(result.status().code(), kAlreadyExists) << result.status();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(committed, static_cast<int>(kRounds));
  EXPECT_EQ(collection->Stats().rows_count, static_cast<int64_t>(2 * kRounds));
  EXPECT_EQ(collection->Stats().epoch, kRounds);
}

}  // namespace
}  // namespace nearfield::testing
