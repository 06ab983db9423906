// Tests batches whose queries have different filters, above the backend.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

// Returns a batch with one query for each filter. The filters choose a row each, and the first
// none.
SearchBatch BatchOfFilters(int64_t queries, absl::Span<const float> vector) {
  SearchBatch batch;
  for (int64_t i = 0; i < queries; ++i) {
    auto filter = std::make_shared<RowFilter>();
    filter->chosen = {i == 0 ? 0 : uint64_t{1} << (i - 1)};
    batch.queries.push_back({.vector = vector, .k = 3, .filter = std::move(filter)});
  }
  return batch;
}

// Row i has the id i.
void ExpectRowsOfFilters(const SearchResult& result) {
  for (size_t i = 0; i < result.queries.size(); ++i) {
    const Neighbors& found = result.queries[i];
    EXPECT_EQ(found.matched_rows, i == 0 ? 0 : 1);
    ASSERT_EQ(found.ids.size(), i == 0 ? 0 : 1);
    if (i > 0) {
      EXPECT_EQ(found.ids.at(0), Id(uint64_t{i - 1}));
    }
  }
}

TEST(EngineFilters, QueriesWithDifferentFiltersShareOneSearch) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({0, 1, 2, 3}, {5, 6, 7, 8})));
  ASSERT_OK(UploadAll(*collection, PlainRows({4, 5, 6}, {5, 6, 7})));
  const std::vector<float> vector = {1, 0};
  ASSERT_OK_AND_ASSIGN(const auto result,
                       fake.engine->Search(*collection, BatchOfFilters(8, vector)));
  ExpectRowsOfFilters(result);
  EXPECT_EQ(fake.device->calls(FakeCall::kSearch), 1);
}

// The device has room for the chosen rows of three filters: two are searched after these three.
TEST(EngineFilters, FiltersThatTheDeviceHasNoRoomForAreSearchedAfterTheOthers) {
  constexpr int64_t kRowBytes = 2 * 4 + 8 + 4 + 8;
  FakeEngineOptions options;
  options.device.memory_bytes = 6 * kRowBytes + 3 * int64_t{sizeof(uint64_t)};
  FakeEngine fake = MakeFakeEngine(options);
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({0, 1, 2, 3, 4, 5}, {5, 6, 7, 8, 9, 10})));
  const std::vector<float> vector = {1, 0};
  const SearchBatch batch = BatchOfFilters(6, vector);
  ASSERT_OK_AND_ASSIGN(const auto result, fake.engine->Search(*collection, batch));
  ExpectRowsOfFilters(result);
  EXPECT_EQ(fake.device->calls(FakeCall::kSearch), 2);
  ASSERT_OK_AND_ASSIGN(const auto again, fake.engine->Search(*collection, batch));
  ExpectRowsOfFilters(again);
}

}  // namespace
}  // namespace nearfield::testing
