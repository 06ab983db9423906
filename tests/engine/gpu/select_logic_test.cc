// The arithmetic of the selection and of the row layout, on the host: the radix algorithm run
// serially against sorting.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "engine/gpu/kernels/common/row_layout.h"
#include "engine/gpu/kernels/select/radix_digits.h"
#include "engine/gpu/kernels/select/select_policy.h"
#include "engine/score/order.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::gpu {
namespace {

using testing::Random;

// One pass as the kernel makes it: count the digit of the keys with the prefix, find the digit of
// the wanted-th.
RadixState Pass(const std::vector<uint64_t>& keys, RadixState state, int pass) {
  std::vector<uint32_t> bins(kDigitBins);
  for (const uint64_t key : keys) {
    if (key != 0 && HasPrefix(key, state.prefix, pass)) ++bins[DigitOf(key, pass)];
  }
  uint32_t greater = 0;
  for (int bin = kDigitBins - 1; bin >= 0; --bin) {
    const uint32_t equal = bins[static_cast<size_t>(bin)];
    if (greater < state.wanted - state.above && state.wanted - state.above <= greater + equal) {
      return NextState(state, pass, static_cast<uint32_t>(bin), greater, equal);
    }
    greater += equal;
  }
  ADD_FAILURE() << "no digit holds the wanted key in pass " << pass;
  return state;
}

void ExpectSelects(std::vector<uint64_t> keys, uint32_t k, uint32_t capacity) {
  RadixState state;
  state.wanted =
      std::min(k, static_cast<uint32_t>(
                      keys.size() - static_cast<size_t>(std::count(keys.begin(), keys.end(), 0u))));
  ASSERT_GT(state.wanted, 0u);
  int pass = 0;
  do {
    state = Pass(keys, state, pass++);
  } while (state.candidates > capacity && pass < kDigitPasses);
  const uint64_t threshold = Threshold(state);
  std::vector<uint64_t> kept;
  for (const uint64_t key : keys) {
    if (key >= threshold) kept.push_back(key);
  }
  ASSERT_EQ(kept.size(), state.candidates);
  ASSERT_LE(kept.size(), capacity);
  ASSERT_GE(kept.size(), state.wanted);
  std::sort(kept.begin(), kept.end(), std::greater<>());
  std::sort(keys.begin(), keys.end(), std::greater<>());
  for (uint32_t i = 0; i < state.wanted; ++i) ASSERT_EQ(kept[i], keys[i]);
}

TEST(RadixDigitsTest, DigitsCoverTheKeyOnce) {
  int bits = 0;
  for (int pass = 0; pass < kDigitPasses; ++pass) {
    bits += DigitWidth(pass);
    EXPECT_GE(DigitWidth(pass), 1);
    EXPECT_LE(DigitWidth(pass), kDigitBits);
    EXPECT_EQ(ShiftAfter(pass), 64 - bits);
  }
  EXPECT_EQ(bits, 64);
  Random random(testing::TestSeed());
  for (int i = 0; i < 1000; ++i) {
    const uint64_t key = random.Bits();
    uint64_t rebuilt = 0;
    for (int pass = 0; pass < kDigitPasses; ++pass) {
      EXPECT_TRUE(HasPrefix(key, rebuilt, pass));
      rebuilt |= static_cast<uint64_t>(DigitOf(key, pass)) << ShiftAfter(pass);
    }
    EXPECT_EQ(rebuilt, key);
  }
}

TEST(RadixDigitsTest, TheAlgorithmEqualsSorting) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 300; ++round) {
    const int64_t count = random.Between(1, 3000);
    const int kind = static_cast<int>(random.Between(0, 5));
    std::vector<uint64_t> keys;
    for (int64_t i = 0; i < count; ++i) {
      const auto rank = static_cast<uint32_t>(i);
      const float score = kind == 0   ? 1.0f
                          : kind == 1 ? random.Gaussian()
                          : kind == 2 ? score::MinusInfinity()
                                      : static_cast<float>(random.Between(0, 2));
      keys.push_back(kind == 4 ? static_cast<uint64_t>(i + 1) : score::OrderKey(score, rank));
      if (random.OneIn(5)) keys.push_back(score::kNoKey);
    }
    const auto k = static_cast<uint32_t>(random.Between(1, 4098));
    const auto capacity = static_cast<uint32_t>(SelectCapacity(static_cast<int>(k)));
    ExpectSelects(keys, k, random.OneIn(2) ? capacity : k);
    if (HasFatalFailure()) return;
  }
}

TEST(SelectPolicyTest, EveryKHasRoomForItself) {
  int before = 0;
  for (const SelectPolicy& policy : kSelectPolicies) {
    EXPECT_GT(policy.k_max, before);
    EXPECT_GE(policy.capacity, policy.k_max);
    EXPECT_EQ(policy.capacity % kSelectThreads, 0);
    EXPECT_EQ(SelectCapacity(before + 1), policy.capacity);
    EXPECT_EQ(SelectCapacity(policy.k_max), policy.capacity);
    before = policy.k_max;
  }
  EXPECT_EQ(before, kSelectKMax);
}

TEST(RowLayoutTest, PositionsAreAPermutationThatGivesEachLaneItsDimensions) {
  for (int32_t dim = 1; dim <= 700; ++dim) {
    const RowShape shape = RowShapeOf(dim);
    ASSERT_GE(shape.padded, dim);
    ASSERT_LT(shape.padded - dim, kWarp);
    ASSERT_EQ(shape.full_blocks * kBlockDims + shape.tail_words * kWarp, shape.padded);
    std::set<int32_t> row_positions;
    std::set<int32_t> query_positions;
    for (int32_t d = 0; d < shape.padded; ++d) {
      const int32_t at = RowPosition(shape, d);
      ASSERT_TRUE(at >= 0 && at < shape.padded);
      row_positions.insert(at);
      query_positions.insert(QueryPosition(shape, d));
      const int32_t block = d / kBlockDims;
      if (block < shape.full_blocks) {
        // Position 128 i + 4 L + j holds dimension 128 i + 32 j + L.
        const int32_t lane = d % kWarp;
        const int32_t j = d % kBlockDims / kWarp;
        ASSERT_EQ(at, block * kBlockDims + 4 * lane + j);
        // Pair j / 2 of lane L is the double2 number 64 i + 32 (j / 2) + L.
        ASSERT_EQ(QueryPosition(shape, d) / 2, block * 64 + (j / 2) * 32 + lane);
        ASSERT_EQ(QueryPosition(shape, d) % 2, j % 2);
      } else {
        ASSERT_EQ(at, d);
      }
    }
    ASSERT_EQ(static_cast<int32_t>(row_positions.size()), shape.padded);
    ASSERT_EQ(static_cast<int32_t>(query_positions.size()), shape.padded);
    ASSERT_EQ(*query_positions.rbegin(), shape.padded - 1);
  }
}

}  // namespace
}  // namespace nearfield::gpu
