// Runs uploads, reads and searches concurrently: the answers do not change.

#include <atomic>
#include <thread>
#include <vector>

#include "tests/engine/cpu/reference.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

class GpuConcurrencyTest : public GpuTest {};

TEST_F(GpuConcurrencyTest, SearchesGoOnWhileOthersUploadAndRead) {
  const auto backend = MakeEngine(512 * kMiB);
  ASSERT_NE(backend, nullptr);
  const CollectionSpec spec = {
      .dim = 200, .metric = Metric::kCosine, .row_type = RowType::kFloat32};
  const HostGeneration generation =
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kClustered, 5000, random_.Bits()),
                              RankOrder::kShuffled, true, random_);
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const std::vector<float> query = MakeQuery(generation.corpus, QueryFamily::kRow, random_);
  const Ranked expected = ToBits(testing::ReferenceTop(generation, query, 50));
  const std::vector<int32_t> k = {50};

  std::atomic<bool> stop{false};
  std::atomic<int> uploads{0};
  std::vector<std::thread> threads;
  for (int uploader = 0; uploader < 3; ++uploader) {
    threads.emplace_back([&, uploader] {
      // Every upload has its own values, so that rows stored in the wrong place are noticed.
      for (int round = 0; !stop.load(); ++round) {
        const std::vector<float> rows(size_t{30'000} * 64,
                                      static_cast<float>(uploader * 1000 + round));
        ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve({.dim = 64}, 30'000));
        ASSERT_OK(planes->Append(rows.data(), 30'000));
        ASSERT_OK(planes->Seal({.ranks = AscendingRanks(30'000)}));
        std::vector<float> got(rows.size());
        ASSERT_OK(planes->ReadRange(0, 30'000, got.data()));
        ASSERT_EQ(got, rows);
        uploads.fetch_add(1);
      }
    });
  }
  for (int searcher = 0; searcher < 2; ++searcher) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        const backend::QueryTile tile = testing::TileOf(query, k);
        backend::RankedLists best;
        ASSERT_OK(
            backend->Search(testing::FormatOf(spec), {&loaded.view, 1}, tile, &best, nullptr));
        ASSERT_EQ(ToBits(best.list(0, 0)), expected);
        if (uploads.load() >= 40) stop.store(true);
      }
      stop.store(true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(uploads.load(), 40);
}

}  // namespace
}  // namespace nearfield::gpu
