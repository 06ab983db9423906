// Laws of uploads, commits and deletions: the history of a corpus never changes an answer.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/property/laws.h"

namespace nearfield::property {
namespace {

class CommitLaws : public Laws {
 protected:
  std::vector<Neighbors> AnswersOf(const Corpus& corpus, const SearchBatch& batch) {
    const auto collection = MakeCollection(engine(), corpus);
    EXPECT_OK(collection);
    return collection.ok() ? SearchOrFail(engine(), **collection, batch) : std::vector<Neighbors>();
  }
};
NEARFIELD_ON_EVERY_BACKEND(CommitLaws);

TEST_P(CommitLaws, PermutingTheUploadChangesNothing) {
  ForEachCase([this](const Case& c, Random& random) {
    std::vector<int64_t> order = testing::AllIndices(c.corpus.rows_count());
    random.Shuffle(order);
    const std::vector<Neighbors> permuted = AnswersOf(testing::Select(c.corpus, order), c.Batch());
    ExpectAnswers(permuted, AnswersOf(c.corpus, c.Batch()));
  });
}

TEST_P(CommitLaws, AnyCutIntoBlocksChangesNothing) {
  ForEachCase([this](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, engine().CreateCollection(c.corpus.spec));
    const std::vector<int64_t> all = testing::AllIndices(c.corpus.rows_count());
    ASSERT_OK(UploadRows(*collection, c.corpus, all, random.Between(1, c.corpus.rows_count() + 1)));
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), AnswersOf(c.corpus, c.Batch()));
  });
}

TEST_P(CommitLaws, AnySplitIntoCommitsChangesNothing) {
  ForEachCase([this](const Case& c, Random& random) {
    const auto parts =
        RandomParts(c.corpus.rows_count(), random.Between(1, kGenerationsMax + 1), random);
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus, parts));
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), AnswersOf(c.corpus, c.Batch()));
  });
}

// Makes more commits than the maximum number of generations, so that small ones are merged.
TEST_P(CommitLaws, ManySmallCommitsChangeNothing) {
  ForEachCase((CasesCount() + 2) / 3, {.rows_count = 129, .dim = 33},
              [this](const Case& c, Random& random) {
                const auto parts = RandomParts(c.corpus.rows_count(), 5 * kGenerationsMax, random);
                ASSERT_OK_AND_ASSIGN(const auto collection,
                                     MakeCollection(engine(), c.corpus, parts));
                EXPECT_LE(collection->Stats().generations_count, kGenerationsMax);
                EXPECT_EQ(collection->Stats().rows_count, c.corpus.rows_count());
                ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), c.OracleAnswers());
              });
}

TEST_P(CommitLaws, AddingALosingRowChangesNothing) {
  ForEachCase(CasesCount(), {.batch = 1}, [this](const Case& c, Random& random) {
    // The last row in order is in no answer whose k is below the number of rows.
    const Neighbors all = OracleAnswer(c.corpus, c.queries[0], c.corpus.rows_count());
    const int64_t rows_kept = c.corpus.rows_count() - 1;
    if (rows_kept == 0) return;
    std::vector<int64_t> winners;
    std::vector<int64_t> loser;
    for (int64_t row = 0; row <= rows_kept; ++row) {
      const bool last = c.corpus.ids.Compare(row, all.ids, rows_kept) == 0;
      (last ? loser : winners).push_back(row);
    }
    SearchBatch batch = c.Batch();
    batch.queries[0].k =
        static_cast<int32_t>(std::min<int64_t>({rows_kept, kKMax, batch.queries[0].k}));
    const std::vector<Neighbors> before = AnswersOf(testing::Select(c.corpus, winners), batch);
    const std::vector<std::vector<int64_t>> parts = {winners, loser};
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus, parts));
    ExpectAnswers(SearchOrFail(engine(), *collection, batch), before);
    std::vector<int64_t> mixed = winners;
    mixed.insert(mixed.begin() + random.Between(0, rows_kept + 1), loser[0]);
    ExpectAnswers(AnswersOf(testing::Select(c.corpus, mixed), batch), before);
  });
}

TEST_P(CommitLaws, DeletingEqualsNeverHavingUploaded) {
  ForEachCase([this](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(
        const auto collection,
        MakeCollection(engine(), c.corpus,
                       RandomParts(c.corpus.rows_count(), random.Between(1, 6), random)));
    // Delete half of the rows or more, in one call or several; then delete the others.
    const std::vector<std::vector<int64_t>> parts =
        RandomParts(c.corpus.rows_count(), random.OneOf<int64_t>({2, 3, 8}), random);
    std::vector<int64_t> kept = parts[0];
    for (size_t part = 1; part < parts.size(); ++part) {
      ASSERT_OK_AND_ASSIGN(const DeleteResult deleted,
                           collection->Delete(testing::Select(c.corpus, parts[part]).ids));
      EXPECT_EQ(deleted.rows_deleted, static_cast<int64_t>(parts[part].size()));
    }
    EXPECT_EQ(collection->Stats().rows_count, static_cast<int64_t>(kept.size()));
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()),
                  AnswersOf(testing::Select(c.corpus, kept), c.Batch()));
    ASSERT_OK(collection->Delete(testing::Select(c.corpus, kept).ids));
    for (const Neighbors& answer : SearchOrFail(engine(), *collection, c.Batch()))
      EXPECT_EQ(answer.ids.size(), 0);
  });
}

TEST_P(CommitLaws, UploadingDeletedRowsAgainEqualsNeverHavingDeletedThem) {
  ForEachCase([this](const Case& c, Random& random) {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), c.corpus));
    const std::vector<std::vector<int64_t>> parts = RandomParts(c.corpus.rows_count(), 3, random);
    for (const std::vector<int64_t>& part : parts) {
      ASSERT_OK(collection->Delete(testing::Select(c.corpus, part).ids));
      ASSERT_OK(UploadRows(*collection, c.corpus, part));
    }
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), AnswersOf(c.corpus, c.Batch()));
  });
}

TEST_P(CommitLaws, AnUploadThatIsNotCommittedLeavesNothingBehind) {
  ForEachCase([this](const Case& c, Random&) {
    const int64_t half = c.corpus.rows_count() / 2;
    std::vector<int64_t> first = testing::AllIndices(half);
    const Corpus committed = testing::Select(c.corpus, first);
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(engine(), committed));
    const int64_t used = engine().GetCapacity().device_bytes_used;
    {
      ASSERT_OK_AND_ASSIGN(
          const auto upload,
          collection->BeginUpload({.rows_max = c.corpus.rows_count(), .payload_bytes_max = 0}));
      ASSERT_OK(upload->Append({.ids = &c.corpus.ids, .rows = c.corpus.rows, .payloads = nullptr}));
    }
    EXPECT_EQ(engine().GetCapacity().device_bytes_used, used);
    ExpectAnswers(SearchOrFail(engine(), *collection, c.Batch()), AnswersOf(committed, c.Batch()));
  });
}

// Searches run while rows are committed and deleted. Each search must see exactly one epoch.
TEST_P(CommitLaws, ASearchSeesExactlyOneEpoch) {
  constexpr int64_t kSteps = 12;
  ForEachCase(
      (CasesCount() + 3) / 4, {.rows_count = 257, .batch = 1, .work_max = 50'000},
      [this](const Case& c, Random& random) {
        ASSERT_OK_AND_ASSIGN(const auto collection, engine().CreateCollection(c.corpus.spec));
        const auto parts = RandomParts(c.corpus.rows_count(), kSteps, random);
        // Each step uploads a part; every second step then deletes the previous part. `expected`
        // holds the oracle's answer after each change.
        std::vector<int64_t> live;
        std::map<uint64_t, Neighbors> expected;
        const auto answer = [&] {
          return OracleAnswer(testing::Select(c.corpus, live), c.queries[0], c.k[0]);
        };
        expected[0] = answer();
        std::atomic<bool> done{false};
        std::vector<std::map<uint64_t, std::vector<Neighbors>>> seen(2);
        std::vector<std::thread> searchers;
        for (auto& by_epoch : seen) {
          searchers.emplace_back([&, this] {
            for (bool last = false; !last;) {
              last = done.load();  // search again after the last commit
              ASSERT_OK_AND_ASSIGN(SearchResult result, engine().Search(*collection, c.Batch()));
              by_epoch[result.epoch].push_back(std::move(result.queries[0]));
            }
          });
        }
        for (size_t step = 0; step < parts.size(); ++step) {
          const absl::StatusOr<CommitResult> committed =
              UploadRows(*collection, c.corpus, parts[step]);
          EXPECT_OK(committed);
          live.insert(live.end(), parts[step].begin(), parts[step].end());
          if (committed.ok()) expected[committed->epoch] = answer();
          if (step % 2 == 0) continue;
          const absl::StatusOr<DeleteResult> deleted =
              collection->Delete(testing::Select(c.corpus, parts[step - 1]).ids);
          EXPECT_OK(deleted);
          live = parts[step];
          for (size_t odd = 1; odd < step; odd += 2)
            live.insert(live.end(), parts[odd].begin(), parts[odd].end());
          if (deleted.ok()) expected[deleted->epoch] = answer();
        }
        done = true;
        for (std::thread& searcher : searchers) searcher.join();
        for (const auto& by_epoch : seen) {
          ASSERT_EQ(by_epoch.count(expected.rbegin()->first), 1u) << "the last epoch was searched";
          for (const auto& [epoch, answers] : by_epoch) {
            ASSERT_EQ(expected.count(epoch), 1u) << "epoch " << epoch;
            for (const Neighbors& got : answers)
              ASSERT_THAT(got, BytesEqual(expected[epoch])) << "epoch " << epoch;
          }
        }
      });
}

}  // namespace
}  // namespace nearfield::property
