// Tests concurrent callers and calls that end early. There are no sleeps: every step waits for the
// previous one.

#include <xmmintrin.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"

namespace nearfield::cpu {
namespace {

HostGeneration SomeRows(int32_t dim, int64_t rows_count, ScanChoice scan, Random& random) {
  const CollectionSpec spec = {.dim = dim, .scan = scan};
  return testing::MakeGeneration(
      MakeCorpus(spec, CorpusFamily::kGaussian, rows_count, random.Bits()), RankOrder::kShuffled,
      false, random);
}

bool Same(absl::Span<const backend::RankedScore> a, absl::Span<const backend::RankedScore> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.score == y.score && x.rank == y.rank;
  });
}

constexpr ScanChoice kScans[] = {ScanChoice::kInt8, ScanChoice::kRows};

class CpuCancellationTest
    : public ::testing::TestWithParam<std::tuple<int32_t, int32_t, ScanChoice>> {};

TEST_P(CpuCancellationTest, AskedBetweenTilesAndObeyedEachTime) {
  const auto [threads, queries_count, scan] = GetParam();
  Random random(TestSeed());
  const auto backend = MakeBackend("", threads);
  const HostGeneration generation = SomeRows(64, 20'000, scan, random);  // many tiles
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const std::vector<float> queries(64 * static_cast<size_t>(queries_count), 1.0f);
  const std::vector<int32_t> k(static_cast<size_t>(queries_count), 3);
  backend::QueryTile tile = testing::TileOf(queries, k);
  backend::ScanCost cost;
  backend::RankedLists best;
  const backend::RowFormat format = testing::FormatOf(generation.corpus.spec);

  int32_t calls = 0;
  tile.cancelled = [&calls] {
    ++calls;
    return false;
  };
  ASSERT_OK(backend->Search(format, {&loaded.view, 1}, tile, &best, &cost));
  const int32_t calls_sure = threads == 1 ? 20 : 1;  // other threads may take most of the tiles
  EXPECT_GE(calls, calls_sure);

  for (int32_t cancel_at = 1; cancel_at <= 20; ++cancel_at) {
    int32_t asked = 0;
    tile.cancelled = [&asked, at = cancel_at] { return ++asked >= at; };
    const absl::Status status = backend->Search(format, {&loaded.view, 1}, tile, &best, &cost);
    EXPECT_LE(asked, cancel_at) << "asked again after the answer was yes";
    EXPECT_EQ(absl::IsCancelled(status), asked == cancel_at) << status;
    if (cancel_at <= calls_sure) {
      EXPECT_EQ(asked, cancel_at);
    }
  }
  tile.cancelled = nullptr;
  ASSERT_OK(backend->Search(format, {&loaded.view, 1}, tile, &best, &cost));
  EXPECT_TRUE(Same(best.list(0, 0), testing::ReferenceTop(generation, {queries.data(), 64}, 3)));
}

INSTANTIATE_TEST_SUITE_P(ThreadsAndQueries, CpuCancellationTest,
                         ::testing::Combine(::testing::Values(1, 3), ::testing::Values(1, 9),
                                            ::testing::ValuesIn(kScans)));

class CpuConcurrencyTest : public ::testing::TestWithParam<ScanChoice> {};

INSTANTIATE_TEST_SUITE_P(Scans, CpuConcurrencyTest, ::testing::ValuesIn(kScans));

TEST_P(CpuConcurrencyTest, SearchesFillsAndDeletionsAtOnceAllAnswerRight) {
  Random random(TestSeed());
  const auto backend = MakeBackend("", 3);
  const HostGeneration generation = SomeRows(40, 6'000, GetParam(), random);
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const backend::RowFormat format = testing::FormatOf(generation.corpus.spec);
  const std::vector<float> query = MakeQuery(generation.corpus, QueryFamily::kGaussian, random);
  const std::vector<backend::RankedScore> want = testing::ReferenceTop(generation, query, 20);
  std::vector<float> queries;
  for (int i = 0; i < 5; ++i) queries.insert(queries.end(), query.begin(), query.end());

  std::atomic<int32_t> wrong{0};
  std::atomic<int32_t> started{0};
  constexpr int32_t kCallers = 6;
  const auto begin_together = [&] {
    started.fetch_add(1);
    while (started.load() < kCallers) std::this_thread::yield();
  };
  std::vector<std::thread> callers;
  for (int32_t caller = 0; caller < kCallers - 2; ++caller) {
    callers.emplace_back([&, caller] {
      begin_together();
      for (int32_t round = 0; round < 30; ++round) {
        const std::vector<int32_t> k(caller % 2 == 0 ? 1 : 5, 20);
        const backend::QueryTile tile = testing::TileOf(queries, k);
        backend::ScanCost cost;
        backend::RankedLists best;
        const absl::Status status = backend->Search(format, {&loaded.view, 1}, tile, &best, &cost);
        if (!status.ok() || !Same(best.list(k.size() - 1, 0), want)) wrong.fetch_add(1);
      }
    });
  }
  for (int32_t filler = 0; filler < 2; ++filler) {
    callers.emplace_back([&] {
      begin_together();
      std::vector<uint8_t> read(generation.corpus.rows.size());
      for (int32_t round = 0; round < 10; ++round) {
        const LoadedGeneration more = testing::Load(*backend, generation);
        const auto tombstones = backend->MakeTombstones(*more.planes, std::vector<uint64_t>(100));
        if (!tombstones.ok()) wrong.fetch_add(1);
        if (!more.planes->ReadRange(0, more.planes->rows_count(), read.data()).ok() ||
            read != generation.corpus.rows) {
          wrong.fetch_add(1);
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(backend->device_bytes_used(), loaded.planes->device_bytes());
}

// A library linked with -ffast-math can switch a thread to flushing denormals. Such a thread must
// not compute scores.
TEST_P(CpuConcurrencyTest, ACallerThatFlushesDenormalsIsRefused) {
  Random random(TestSeed());
  const auto backend = MakeBackend("", 2);
  const HostGeneration generation = SomeRows(8, 100, GetParam(), random);
  const LoadedGeneration loaded = testing::Load(*backend, generation);
  const std::vector<float> query(8, 1.0f);
  const std::vector<int32_t> k = {1};
  const backend::QueryTile tile = testing::TileOf(query, k);
  backend::ScanCost cost;
  backend::RankedLists best;
  const backend::RowFormat format = testing::FormatOf(generation.corpus.spec);
  const uint32_t mode = _mm_getcsr();
  for (const uint32_t bits : {0x8000u, 0x0040u, 0x2000u}) {  // FTZ, DAZ, round down
    _mm_setcsr(mode | bits);
    const absl::Status status = backend->Search(format, {&loaded.view, 1}, tile, &best, &cost);
    _mm_setcsr(mode);
    EXPECT_THAT(status, StatusIs(kFailedPrecondition));
  }
  EXPECT_OK(backend->Search(format, {&loaded.view, 1}, tile, &best, &cost));
}

}  // namespace
}  // namespace nearfield::cpu
