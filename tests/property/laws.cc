#include "tests/property/laws.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/seed.h"

namespace nearfield::property {
namespace {

// Returns a seed for the running law. It is the same when the law runs alone, and for every backend
// and scan ("Law/CpuInt8", "Law/GpuRows").
uint64_t SeedOfTest() {
  const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  uint64_t seed = testing::TestSeed();
  for (const char c : name.substr(0, name.find('/'))) {
    seed = testing::Scramble(seed + static_cast<unsigned char>(c) + 1);
  }
  return seed;
}

}  // namespace

std::string Name(const Way& way) {
  return absl::StrCat(testing::Name(way.backend),
                      way.scan == ScanChoice::kInt8    ? "Int8"
                      : way.scan == ScanChoice::kInt16 ? "Int16"
                                                       : "Rows",
                      way.rows == RowPlacement::kHost ? "HostRows" : "",
                      way.devices > 1 ? absl::StrCat("On", way.devices, "Devices") : "");
}

void Laws::SetUp() {
  const BackendKind backend = GetParam().backend;
  const int32_t devices = GetParam().devices;
  const absl::Status usable = testing::Usable(backend, devices);
  if (!usable.ok())
    GTEST_SKIP() << "no " << testing::Name(backend) << " backend here: " << usable.message();
  const absl::StatusOr<Engine*> shared = testing::SharedEngine(backend, devices);
  ASSERT_OK(shared);
  engine_ = *shared;
}

void Laws::ForEachCase(int cases_count, const CaseWish& wish, const Law& law) {
  CaseWish possible = wish;
  // A collection that keeps its rows on the host scans codes.
  if (GetParam().rows == RowPlacement::kHost) possible.dim_max = engine_->Info().scan_dim_max;
  if (wish.dim.value_or(1) > possible.dim_max) return;
  property::ForEachCase(cases_count, possible, [&](const Case& drawn, testing::Random& random) {
    Case c = drawn;
    c.corpus.spec.scan = GetParam().scan;
    c.corpus.spec.rows = GetParam().rows;
    law(c, random);
  });
}

void ForEachCase(int cases_count, const CaseWish& wish, const Law& law) {
  uint64_t seed = SeedOfTest();
  for (const int64_t wished : {wish.rows_count.value_or(0), int64_t{wish.dim.value_or(0)},
                               int64_t{wish.batch.value_or(0)}, int64_t{wish.k.value_or(0)}}) {
    seed = testing::Scramble(seed + static_cast<uint64_t>(wished) + 1);
  }
  for (int i = 0; i < cases_count; ++i) {
    testing::Random random(seed + static_cast<uint64_t>(i));
    const Case c = DrawCase(random, wish);
    SCOPED_TRACE(absl::StrCat("case ", i, ": ", c.text));
    law(c, random);
    if (::testing::Test::HasFailure()) return;
  }
}

std::vector<Neighbors> SearchOrFail(Engine& engine, const Collection& collection,
                                    const SearchBatch& batch) {
  absl::StatusOr<SearchResult> result = engine.Search(collection, batch);
  EXPECT_OK(result);
  if (!result.ok()) return {};
  EXPECT_EQ(result->queries.size(), batch.queries.size());
  return std::move(result->queries);
}

void ExpectAnswers(const std::vector<Neighbors>& got, const std::vector<Neighbors>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t query = 0; query < got.size(); ++query) {
    ASSERT_THAT(got[query], testing::BytesEqual(want[query])) << "query " << query;
  }
}

std::vector<std::vector<int64_t>> RandomParts(int64_t rows_count, int64_t parts_count,
                                              testing::Random& random) {
  std::vector<int64_t> order = testing::AllIndices(rows_count);
  random.Shuffle(order);
  std::vector<std::vector<int64_t>> parts(static_cast<size_t>(parts_count));
  for (const int64_t index : order)
    parts[static_cast<size_t>(random.Between(0, parts_count))].push_back(index);
  return parts;
}

}  // namespace nearfield::property
