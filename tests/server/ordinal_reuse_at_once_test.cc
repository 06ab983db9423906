// Tests that ordinals are reused while uploads, readers and Tidy run concurrently.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/server/ordinal_reuse_fixture.h"

namespace nearfield::server {
namespace {

using testing::Random;

// Callers with their own ids, a thread that calls Tidy, and readers, all concurrently. A row's
// vector holds its n.
class CollectionOrdinalsConcurrencyTest : public CollectionOrdinalsTest {
 protected:
  static constexpr int64_t kValues = 4;

  void UpsertMany(uint64_t first_id, uint64_t seed) {
    Random random(seed);
    for (int uploads = 0; uploads < 150; ++uploads) {
      ASSERT_OK_AND_ASSIGN(
          auto upload,
          CollectionUpload::Begin(named_,
                                  {.reservation = {.rows_max = 400, .mode = UploadMode::kUpsert}}));
      IdColumn ids;
      std::vector<float> vectors;
      std::vector<PlainRow> attributes;
      for (int64_t count = random.Between(1, 400); count > 0; --count) {
        ids.AppendNumber(first_id + static_cast<uint64_t>(random.Between(0, 500)));
        const int64_t n = random.Between(0, kValues);
        attributes.push_back({.attributes = {std::vector<PlainValue>{n}}});
        vectors.insert(vectors.end(), {static_cast<float>(n), 1});
      }
      const auto* const bytes = reinterpret_cast<const uint8_t*>(vectors.data());
      const auto rows = absl::MakeConstSpan(bytes, vectors.size() * sizeof(float));
      ASSERT_OK(upload->Append({.ids = &ids, .rows = rows}, BlockOf(schema_, attributes)));
      if (random.OneIn(5)) continue;  // abandoned
      ASSERT_OK(upload->Commit());
    }
  }

  // Checks that each row of the state passes the filter of its own n, and no other, and that its
  // attribute is n.
  void ExpectEachRowOnce(const std::shared_ptr<const PinnedEpoch>& at) {
    int64_t rows_count = 0;
    for (int64_t n = 0; n < kValues; ++n) {
      SearchBatch batch;
      const ChosenRows chosen = Choose(Compare("n", Comparison::kEqual, Integers({n})), at);
      Query query = {.vector = vector_, .row_id = {}, .k = kKMax};
      query.filter = chosen.rows;
      batch.queries = {query};
      batch.at = at;
      batch.parts = {.vectors = true, .ordinals = true};
      ASSERT_OK_AND_ASSIGN(const auto result, engine_->Search(*named_->collection, batch));
      const Neighbors& found = result.queries[0];
      rows_count += found.ids.size();
      ASSERT_OK_AND_ASSIGN(const RowReader rows,
                           named_->attributes->FindRows(*at, found.ordinals, {}));
      const AttributeColumn column = rows.Read(0, found.ids.size());
      ASSERT_EQ(column.values.size(), found.ids.size());
      for (int64_t row = 0; row < found.ids.size(); ++row) ASSERT_EQ(column.values.bits(row), n);
      for (size_t row = 0; row < found.scores.size(); ++row) {
        float value = -1;
        std::memcpy(&value, found.rows.data() + row * 2 * sizeof(float), sizeof value);
        ASSERT_EQ(value, static_cast<float>(n));
      }
    }
    ASSERT_EQ(rows_count, at->rows_count());
  }
};

TEST_F(CollectionOrdinalsConcurrencyTest, FiltersStayRightWhileOrdinalsAreUsedAgain) {
  Start(200'000);
  std::atomic<bool> done{false};
  std::vector<std::thread> uploads;
  for (uint64_t caller = 0; caller < 3; ++caller) {
    uploads.emplace_back([this, caller, seed = random_.Bits()] { UpsertMany(500 * caller, seed); });
  }
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!done) Tidy();
  });
  others.emplace_back([&] {
    std::shared_ptr<const PinnedEpoch> held;
    for (int round = 0; !done && !HasFatalFailure(); ++round) {
      if (round % 10 == 0) held = named_->collection->PinEpoch();
      ExpectEachRowOnce(held);
      ExpectEachRowOnce(named_->collection->PinEpoch());
    }
  });
  for (std::thread& thread : uploads) thread.join();
  done = true;
  for (std::thread& thread : others) thread.join();
  ExpectEachRowOnce(named_->collection->PinEpoch());
}

}  // namespace
}  // namespace nearfield::server
