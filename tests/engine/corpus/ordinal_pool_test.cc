// Tests OrdinalPool against a plain list of the ordinals in use.
#include "engine/corpus/ordinal_pool.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tests/engine/prelude.h"

namespace nearfield::corpus {
namespace {

// Finds the lowest free range ordinal by ordinal.
class PlainPool {
 public:
  explicit PlainPool(int64_t ordinals_max) : used_(static_cast<size_t>(ordinals_max), false) {}

  std::optional<uint32_t> Take(int64_t rows_count) {
    int64_t length = 0;
    for (size_t i = 0; i < used_.size(); ++i) {
      length = used_[i] ? 0 : length + 1;
      if (length < rows_count) continue;
      const auto end = static_cast<int64_t>(i) + 1;
      Set(end - rows_count, rows_count, true);
      return static_cast<uint32_t>(end - rows_count);
    }
    return std::nullopt;
  }
  void Release(int64_t first, int64_t rows_count) { Set(first, rows_count, false); }

 private:
  void Set(int64_t first, int64_t rows_count, bool used) {
    std::fill_n(used_.begin() + first, rows_count, used);
  }
  std::vector<bool> used_;
};

struct Taken {
  uint32_t first = 0;
  int64_t rows_count = 0;
};

TEST(OrdinalPoolLaws, TheLowestRangeThatIsLongEnoughIsTaken) {
  Random random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const int64_t ordinals_max = random.OneOf<int64_t>({1, 64, 65, 700, 3000});
    OrdinalPool pool(ordinals_max);
    PlainPool plain(ordinals_max);
    std::vector<Taken> all;
    for (int step = 0; step < 400; ++step) {
      if (!all.empty() && random.OneIn(2)) {  // release part of a range
        Taken& taken =
            all[static_cast<size_t>(random.Between(0, static_cast<int64_t>(all.size())))];
        const int64_t begin = random.OneIn(2) ? 0 : random.Between(0, taken.rows_count);
        const int64_t count = random.OneIn(2) ? taken.rows_count - begin
                                              : random.Between(1, taken.rows_count - begin + 1);
        const auto first = taken.first + static_cast<uint32_t>(begin);
        pool.Release(first, count);
        plain.Release(first, count);
        const Taken after = {.first = first + static_cast<uint32_t>(count),
                             .rows_count = taken.rows_count - begin - count};
        taken.rows_count = begin;
        if (begin == 0) {
          std::swap(taken, all.back());
          all.pop_back();
        }
        if (after.rows_count > 0) all.push_back(after);
        continue;
      }
      const int64_t rows_count = random.OneOf<int64_t>({1, 1, 2, 3, 31, 63, 64, 65, 127, 128, 200});
      const auto first = pool.Take(rows_count);
      const std::optional<uint32_t> expected = plain.Take(rows_count);
      ASSERT_EQ(first.ok(), expected.has_value()) << first.status();
      if (!first.ok()) {
        ASSERT_THAT(first, StatusIs(kResourceExhausted));
        continue;
      }
      ASSERT_EQ(*first, *expected) << rows_count << " rows";
      all.push_back({.first = *first, .rows_count = rows_count});
    }
  }
}

TEST(OrdinalPoolTest, WithoutAFreeRangeTheErrorHasTheNumbers) {
  OrdinalPool pool(100);
  ASSERT_OK(pool.Take(50));
  ASSERT_OK(pool.Take(40));
  pool.Release(10, 20);
  EXPECT_THAT(pool.Take(21), StatusIs(kResourceExhausted,
                                      AllOf(HasSubstr("21 consecutive ones are needed"),
                                            HasSubstr("30 of the collection's 100 are free"))));
  EXPECT_EQ(*pool.Take(20), 10u);
  EXPECT_EQ(*pool.Take(10), 90u);
  EXPECT_THAT(pool.Take(1),
              StatusIs(kResourceExhausted, HasSubstr("0 of the collection's 100 are free")));
  pool.Release(99, 1);
  EXPECT_EQ(*pool.Take(1), 99u);
}

}  // namespace
}  // namespace nearfield::corpus
