// Tests of OrdinalSet against std::set: containers of every kind, and their borders.
#include "server/attributes/ordinal_set.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "tests/server/prelude.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

constexpr uint32_t kBase = 3 * 65536;
constexpr size_t kWords = 5 * 1024 - 7;  // the last container is incomplete

// Draws runs, scattered ordinals, dense parts and container borders; some below and above the
// words.
std::vector<uint32_t> Draw(Random& random) {
  std::set<uint32_t> ordinals;
  for (int64_t part = random.Between(0, 6); part > 0; --part) {
    const auto begin = static_cast<uint32_t>(random.Between(0, kBase + 7 * 65536));
    const auto count = random.OneOf<int64_t>({1, 2, 63, 4096, 4097, 65536, 100'000});
    const int64_t step = random.OneOf<int64_t>({1, 1, 2, 13});
    for (int64_t i = 0; i < count; i += step) ordinals.insert(begin + static_cast<uint32_t>(i));
  }
  for (const uint32_t border : {0u, kBase - 1, kBase, kBase + 65535, kBase + 65536}) {
    if (random.OneIn(3)) ordinals.insert(border);
  }
  return {ordinals.begin(), ordinals.end()};
}

std::vector<uint64_t> BitsOf(const std::vector<uint32_t>& ordinals) {
  std::vector<uint64_t> words(kWords);
  for (const uint32_t ordinal : ordinals) {
    if (ordinal < kBase || ordinal >= kBase + 64 * kWords) continue;
    words[(ordinal - kBase) / 64] |= uint64_t{1} << ((ordinal - kBase) % 64);
  }
  return words;
}

TEST(OrdinalSetLaws, WordsComeAndGo) {
  Random random(testing::TestSeed());
  for (int round = 0; round < testing::RandomRounds(100); ++round) {
    const std::vector<uint32_t> ordinals = Draw(random);
    OrdinalSet set = OrdinalSet::FromSorted(ordinals);
    if (random.OneIn(2)) set.Compact();
    ASSERT_EQ(set.ToVector(), ordinals);
    std::vector<uint32_t> in_ranges;
    uint64_t touching = UINT64_MAX;
    set.ForEachRange([&](OrdinalRange range) {
      ASSERT_LT(range.begin, range.end);
      EXPECT_NE(range.begin, touching);
      touching = range.end;
      for (uint64_t i = range.begin; i < range.end; ++i) {
        in_ranges.push_back(static_cast<uint32_t>(i));
      }
    });
    ASSERT_EQ(in_ranges, ordinals);
    std::vector<uint64_t> words(kWords, 0xa5a5a5a5a5a5a5a5u);
    set.CopyWords(kBase, absl::MakeSpan(words));
    ASSERT_EQ(words, BitsOf(ordinals));
    std::vector<uint32_t> inside;
    std::copy_if(ordinals.begin(), ordinals.end(), std::back_inserter(inside),
                 [](uint32_t each) { return each >= kBase && each < kBase + 64 * kWords; });
    const OrdinalSet back = OrdinalSet::FromWords(kBase, words);
    ASSERT_EQ(back.ToVector(), inside);
    ASSERT_EQ(back == set, inside == ordinals);
  }
}

TEST(OrdinalSetLaws, TheAlgebraIsThatOfSets) {
  Random random(testing::TestSeed());
  for (int round = 0; round < testing::RandomRounds(40); ++round) {
    const std::vector<uint32_t> a = Draw(random);
    const std::vector<uint32_t> b = Draw(random);
    OrdinalSet set_a = OrdinalSet::FromSorted(a);
    OrdinalSet set_b = OrdinalSet::FromSorted(b);
    if (random.OneIn(2)) set_a.Compact();
    if (random.OneIn(2)) set_b.Compact();
    const auto expect = [&](auto algorithm, const OrdinalSet& made, auto in_place) {
      std::vector<uint32_t> expected;
      algorithm(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
      ASSERT_EQ(made.ToVector(), expected);
      OrdinalSet changed = set_a;
      (changed.*in_place)(set_b);
      ASSERT_EQ(changed.ToVector(), expected);
      ASSERT_EQ(changed.size(), static_cast<int64_t>(expected.size()));
      ASSERT_EQ(changed.empty(), expected.empty());
      ASSERT_TRUE(changed == made);
    };
    using Iterator = std::vector<uint32_t>::const_iterator;
    using Out = std::back_insert_iterator<std::vector<uint32_t>>;
    expect(std::set_intersection<Iterator, Iterator, Out>, OrdinalSet::Intersection(set_a, set_b),
           &OrdinalSet::IntersectWith);
    expect(std::set_difference<Iterator, Iterator, Out>, OrdinalSet::Difference(set_a, set_b),
           &OrdinalSet::Subtract);
    expect(std::set_symmetric_difference<Iterator, Iterator, Out>,
           OrdinalSet::SymmetricDifference(set_a, set_b), &OrdinalSet::ToggleAll);
    expect(std::set_union<Iterator, Iterator, Out>, OrdinalSet::Union({&set_a, &set_b}),
           &OrdinalSet::UniteWith);
    ASSERT_EQ(set_a.IntersectionSize(set_b), OrdinalSet::Intersection(set_a, set_b).size());
  }
}

TEST(OrdinalSetTest, TheGreatestOrdinalIsOne) {
  const OrdinalSet set =
      OrdinalSet::FromRange({.begin = 0xffff0000u - 1, .end = uint64_t{1} << 32});
  EXPECT_EQ(set.size(), 65537);
  EXPECT_EQ(set.last(), 0xffffffffu);
  EXPECT_EQ(set.first(), 0xfffeffffu);
  std::vector<uint64_t> words(1024);
  set.CopyWords(0xffff0000u, absl::MakeSpan(words));
  EXPECT_EQ(words, std::vector<uint64_t>(1024, ~uint64_t{0}));
  EXPECT_EQ(OrdinalSet::FromWords(0xffff0000u, words).size(), 65536);
}

TEST(OrdinalSetTest, CopiesAndMovesAreSets) {
  OrdinalSet a = OrdinalSet::FromRange({.begin = 5, .end = 8});
  OrdinalSet b = a;
  b.Add(1);
  EXPECT_THAT(a.ToVector(), ElementsAre(5, 6, 7));
  a = b;
  EXPECT_THAT(a.ToVector(), ElementsAre(1, 5, 6, 7));
  const OrdinalSet c = std::move(a);
  EXPECT_THAT(c.ToVector(), ElementsAre(1, 5, 6, 7));
  EXPECT_TRUE(c.Contains(6));
  EXPECT_FALSE(c.Contains(4));
  EXPECT_TRUE(OrdinalSet::FromRange({.begin = 4, .end = 4}).empty());
  EXPECT_GT(c.bytes(), 8);
}

}  // namespace
}  // namespace nearfield::server
