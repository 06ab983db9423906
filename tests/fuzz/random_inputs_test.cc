// A bounded run of any fuzzer whose inputs are instructions: each test program links one.
#include "tests/fuzz/bounded_run.h"

namespace nearfield::fuzz {
namespace {

// Small bytes give consistent choices and counts; others use all byte values.
TEST(RandomInputsFuzz, EveryInputKeepsTheLawsOfItsFuzzer) {
  RunBounded(NEARFIELD_FUZZ_INPUTS_DEFAULT, [](testing::Random& random) {
    std::vector<uint8_t> input(
        static_cast<size_t>(random.Between(0, random.OneIn(10) ? 2000 : 100)));
    const int64_t small_in = random.Between(1, 6);
    for (uint8_t& byte : input) {
      const uint64_t bits = random.Bits();
      byte = static_cast<uint8_t>(random.OneIn(small_in) ? bits % 8 : bits);
    }
    return input;
  });
}

}  // namespace
}  // namespace nearfield::fuzz
