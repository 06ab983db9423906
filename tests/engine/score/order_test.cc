// Tests of the total order of results: integer keys, and a comparator of scored ids.
#include "engine/score/order.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/score/neighbor_order.h"
#include "nearfield/engine/id_column.h"
#include "tests/engine/prelude.h"

namespace nearfield::score {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns boundary values and many random scores; never NaN, never -0.
std::vector<float> Scores() {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kMin = std::numeric_limits<float>::min();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  std::vector<float> scores = {-kInfinity, -kMax, -1.0f, -kMin, -kMin + kLeast, -kLeast, 0.0f,
                               kInfinity,  kMax,  1.0f,  kMin,  kMin - kLeast,  kLeast};
  scores.push_back(std::nextafter(1.0f, 2.0f));
  scores.push_back(std::nextafter(1.0f, 0.0f));
  Random random(TestSeed());
  while (scores.size() < 600) {
    const float score = FloatFromBits(static_cast<uint32_t>(random.Bits()));
    if (!std::isnan(score) && BitsFromFloat(score) != 0x80000000u) scores.push_back(score);
  }
  return scores;
}

TEST(OrderedBits, OrderAsTheScoresDo) {
  const std::vector<float> scores = Scores();
  for (const float a : scores) {
    for (const float b : scores) {
      ASSERT_EQ(OrderedBits(a) < OrderedBits(b), a < b) << a << " and " << b;
      ASSERT_EQ(OrderedBits(a) == OrderedBits(b), a == b) << a << " and " << b;
    }
  }
}

TEST(OrderedBits, GiveTheScoreBackToTheBit) {
  for (const float score : Scores()) {
    EXPECT_EQ(BitsFromFloat(ScoreFromOrderedBits(OrderedBits(score))), BitsFromFloat(score))
        << score;
  }
}

TEST(OrderKey, OrdersByScoreThenSmallerRank) {
  const std::vector<float> scores = Scores();
  Random random(TestSeed() + 1);
  const std::vector<uint32_t> special = {0u, 1u, 0x7fffffffu, 0x80000000u,
                                         static_cast<uint32_t>(kRankMax - 1)};
  for (int i = 0; i < 200000; ++i) {
    const float a = random.OneOf<float>(scores);
    const float b = random.OneIn(2) ? a : random.OneOf<float>(scores);
    const uint32_t a_rank = random.OneOf<uint32_t>(special);
    const uint32_t b_rank = random.OneIn(2) ? random.OneOf<uint32_t>(special)
                                            : static_cast<uint32_t>(random.Bits() >> 33);
    const bool before = a > b || (a == b && a_rank < b_rank);
    ASSERT_EQ(OrderKey(a, a_rank) > OrderKey(b, b_rank), before)
        << a << " rank " << a_rank << ", " << b << " rank " << b_rank;
  }
}

TEST(OrderKey, GivesScoreAndRankBack) {
  for (const float score : Scores()) {
    for (const uint32_t rank : {0u, 1u, 77u, 0x80000000u, static_cast<uint32_t>(kRankMax - 1)}) {
      EXPECT_EQ(BitsFromFloat(KeyScore(OrderKey(score, rank))), BitsFromFloat(score));
      EXPECT_EQ(KeyRank(OrderKey(score, rank)), rank);
    }
  }
}

// -inf is a legal score: even with the largest rank its key must be greater than "no row".
TEST(OrderKey, OfAnyRowIsGreaterThanNoRow) {
  EXPECT_GT(OrderKey(-kInfinity, static_cast<uint32_t>(kRankMax - 1)), kNoKey);
  EXPECT_GT(OrderKey(-kInfinity, 0), kNoKey);
}

TEST(ComesBefore, PutsTheHigherScoreFirstThenTheSmallerNumber) {
  const IdColumn ids = IdColumn::OfNumbers({7, 0x8000000000000000u, 3});
  const ScoredId seven{.score = 1.0f, .ids = &ids, .index = 0};
  const ScoredId huge{.score = 1.0f, .ids = &ids, .index = 1};
  const ScoredId three{.score = 0.5f, .ids = &ids, .index = 2};
  EXPECT_TRUE(ComesBefore(seven, huge)) << "ids are unsigned";
  EXPECT_FALSE(ComesBefore(huge, seven));
  EXPECT_TRUE(ComesBefore(huge, three)) << "the score decides first";
  EXPECT_FALSE(ComesBefore(seven, seven));
}

TEST(ComesBefore, ComparesStringsByUnsignedBytesAcrossColumns) {
  IdColumn a(IdType::kString);
  IdColumn b(IdType::kString);
  a.AppendString("doc/1");
  a.AppendString("doc/\xc3\xa9");
  b.AppendString("doc/10");
  b.AppendString("doc/z");
  const auto at = [](const IdColumn& ids, int64_t index) {
    return ScoredId{.score = -kInfinity, .ids = &ids, .index = index};
  };
  EXPECT_TRUE(ComesBefore(at(a, 0), at(b, 0))) << "a prefix comes first";
  EXPECT_TRUE(ComesBefore(at(b, 0), at(a, 1)));
  EXPECT_TRUE(ComesBefore(at(b, 1), at(a, 1))) << "bytes above 0x7f come last";
  EXPECT_FALSE(ComesBefore(at(a, 1), at(b, 1)));
}

}  // namespace
}  // namespace nearfield::score
