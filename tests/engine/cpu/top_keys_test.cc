#include "engine/cpu/top_keys.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/engine/prelude.h"

namespace nearfield::cpu {
namespace {

std::vector<uint64_t> BestOf(std::vector<uint64_t> keys, int32_t k) {
  std::sort(keys.begin(), keys.end(), std::greater<>());
  keys.resize(std::min(keys.size(), static_cast<size_t>(k)));
  return keys;
}

void ExpectBest(const std::vector<uint64_t>& stream, int32_t k) {
  // A red zone of one key after the storage detects a write past the capacity.
  constexpr uint64_t kRedZone = 0xfeedfacecafebeef;
  std::vector<uint64_t> storage(static_cast<size_t>(TopKeys::Capacity(k)) + 1, kRedZone);
  TopKeys top;
  top.Reset(storage.data(), k);
  for (const uint64_t key : stream) {
    const uint64_t before = top.threshold();
    top.Push(key);
    ASSERT_GE(top.threshold(), before);
  }
  EXPECT_EQ(BestOf({top.begin(), top.end()}, k), BestOf(stream, k))
      << "k = " << k << ", " << stream.size() << " keys";
  EXPECT_EQ(storage.back(), kRedZone);
}

TEST(TopKeysTest, HoldsTheBestOfEveryOrderOfKeys) {
  Random random(TestSeed());
  for (const int32_t k : {1, 2, 10, 100, 1000, 4097}) {
    for (const int64_t count : {1, k - 1, k, k + 1, 3 * k + 63, 3 * k + 64, 3 * k + 65, 20 * k}) {
      std::vector<uint64_t> keys;
      for (int64_t i = 0; i < count; ++i) keys.push_back(static_cast<uint64_t>(i) * 7 + 1);
      ExpectBest(keys, k);  // ascending: every key is better than all before
      std::reverse(keys.begin(), keys.end());
      ExpectBest(keys, k);
      random.Shuffle(keys);
      ExpectBest(keys, k);
    }
  }
}

TEST(TopKeysTest, AThresholdFromElsewhereKeepsWhatExceedsIt) {
  std::vector<uint64_t> storage(static_cast<size_t>(TopKeys::Capacity(3)));
  TopKeys top;
  top.Reset(storage.data(), 3);
  top.Push(5);
  top.RaiseThreshold(10);
  top.Push(10);
  top.Push(11);
  top.RaiseThreshold(4);
  EXPECT_EQ(top.threshold(), 10u);
  EXPECT_EQ((std::vector<uint64_t>{top.begin(), top.end()}), (std::vector<uint64_t>{5, 11}));
  EXPECT_EQ(top.taken(), 2);
}

}  // namespace
}  // namespace nearfield::cpu
