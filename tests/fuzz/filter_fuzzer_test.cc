#include "tests/fuzz/bounded_run.h"

namespace nearfield::fuzz {
namespace {

// Inputs of small bytes give consistent counts and levels; others use all byte values.
TEST(FilterFuzz, AnyInputIsRefusedOrFiltersAsTheSlowFilter) {
  RunBounded(40'000, [](testing::Random& random) {
    std::vector<uint8_t> input(
        static_cast<size_t>(random.Between(0, random.OneIn(10) ? 2000 : 60)));
    const int64_t small_in = random.Between(1, 6);
    for (uint8_t& byte : input) {
      const uint64_t bits = random.Bits();
      byte = static_cast<uint8_t>(random.OneIn(small_in) ? bits % 6 : bits);
    }
    return input;
  });
}

}  // namespace
}  // namespace nearfield::fuzz
