#include "tests/fuzz/search_fuzzer.h"

#include "tests/fuzz/bounded_run.h"

namespace nearfield::fuzz {
namespace {

// Few different byte values make ties, duplicates and zeros; all byte values make extremes.
std::vector<uint8_t> DrawInput(testing::Random& random) {
  const auto mask =
      random.OneOf<uint8_t>({uint8_t{0xff}, uint8_t{0x81}, uint8_t{0x43}, uint8_t{0x01}});
  std::vector<uint8_t> input(
      static_cast<size_t>(random.Between(0, random.OneIn(2) ? 300 : 20'000)));
  for (size_t i = 0; i < input.size(); ++i) {
    const auto byte = static_cast<uint8_t>(random.Bits());
    input[i] = i < 16 ? byte : static_cast<uint8_t>(byte & mask);
  }
  return input;
}

TEST(SearchFuzz, AnyInputIsAnsweredAsTheOracleDoes) {
  RunBounded(4000, DrawInput, [](const std::vector<uint8_t>& input) {
    ASSERT_EQ(SearchDifference(input.data(), input.size()), "");
  });
}

TEST(SearchFuzz, InputsThatEndEarlyAreInputs) {
  testing::Random random(testing::TestSeed());
  std::vector<uint8_t> input(120);
  for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.Bits());
  for (size_t size = 0; size <= input.size(); ++size) {
    ASSERT_EQ(SearchDifference(input.data(), size), "") << size << " bytes";
  }
}

}  // namespace
}  // namespace nearfield::fuzz
