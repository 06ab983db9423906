#include "engine/corpus/id_filter.h"

#include <cstdint>

#include "tests/engine/prelude.h"

namespace nearfield::corpus {
namespace {

TEST(IdFilter, PassesEveryIdThatIsPresent) {
  Random random(TestSeed());
  for (const IdType type : {IdType::kUint64, IdType::kString}) {
    for (const int64_t size : {1, 2, 3, 4, 5, 64, 3000}) {
      const IdColumn ids = MakeIds(type, size, random.Bits());
      const IdFilter filter(ids);
      EXPECT_EQ(filter.bytes(), IdFilter::BytesFor(size));
      for (int64_t i = 0; i < size; ++i) EXPECT_TRUE(filter.MayHold(IdHash(ids, i)));
    }
  }
}

// The worst numbers for a weak hash: consecutive ones, and ones that differ only in their upper
// bits. About one absent id in 150 passes.
TEST(IdFilter, RejectsNearlyAllIdsThatAreAbsent) {
  constexpr uint64_t kCount = 20'000;
  for (const int shift : {0, 20, 44}) {
    IdColumn present;
    IdColumn others;
    for (uint64_t i = 0; i < kCount; ++i) {
      present.AppendNumber(2 * i << shift);
      others.AppendNumber((2 * i + 1) << shift);
    }
    const IdFilter filter(present);
    uint64_t passed = 0;
    for (int64_t i = 0; i < others.size(); ++i) passed += filter.MayHold(IdHash(others, i)) ? 1 : 0;
    EXPECT_LT(passed, kCount / 60) << shift;
  }
}

}  // namespace
}  // namespace nearfield::corpus
