#include "engine/base/count_bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield {
namespace {

TEST(CountBitsTest, EqualsTheSumOfEachWord) {
  testing::Random random(testing::TestSeed());
  for (int round = 0; round < 1000; ++round) {
    std::vector<uint64_t> words(static_cast<size_t>(random.Between(0, 70)));
    int64_t expected = 0;
    for (uint64_t& word : words) {
      word = random.OneIn(3) ? ~uint64_t{0} : random.Bits() & random.Bits();
      expected += std::popcount(word);
    }
    ASSERT_EQ(CountBits(words), expected);
  }
}

}  // namespace
}  // namespace nearfield
