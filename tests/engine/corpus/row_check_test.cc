#include "engine/corpus/row_check.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "engine/score/row_types.h"
#include "engine/score/score.h"
#include "tests/engine/prelude.h"

namespace nearfield::corpus {
namespace {

bool Finite16(RowType type, uint16_t bits) {
  return std::isfinite(type == RowType::kFloat16 ? score::FloatFromHalfBits(bits)
                                                 : score::FloatFromBfloat16Bits(bits));
}

// Every pattern, in each of the four places of a word, between neighbors of the largest finite
// value.
TEST(RowCheck, AgreesOnEvery16BitPattern) {
  for (const RowType type : {RowType::kFloat16, RowType::kBFloat16}) {
    const uint16_t greatest = type == RowType::kFloat16 ? 0xfbff : 0xff7f;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      for (size_t place = 0; place < 5; ++place) {
        uint16_t elements[5] = {greatest, greatest, greatest, greatest, greatest};
        elements[place] = static_cast<uint16_t>(bits);
        const std::optional<int64_t> found =
            FindNonFinite(type, {reinterpret_cast<const uint8_t*>(elements), sizeof(elements)});
        if (Finite16(type, elements[place])) {
          ASSERT_FALSE(found.has_value()) << bits << " at " << place;
        } else {
          ASSERT_EQ(found, static_cast<int64_t>(place)) << bits;
        }
      }
    }
  }
}

TEST(RowCheck, AgreesOnFp32PatternsRoundTheExponents) {
  for (uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t exponent = 0; exponent < 256; ++exponent) {
      for (uint32_t mantissa : {0u, 1u, 0x400000u, 0x7fffffu}) {
        const uint32_t bits = sign | exponent << 23 | mantissa;
        const uint32_t elements[3] = {0xff7fffffu, bits, 0xff7fffffu};
        const std::optional<int64_t> found = FindNonFinite(
            RowType::kFloat32, {reinterpret_cast<const uint8_t*>(elements), sizeof(elements)});
        EXPECT_EQ(found.has_value(), !std::isfinite(score::FloatFromBits(bits))) << bits;
      }
    }
  }
}

// A bad element is found in blocks, in words and in the tail; of two, the first is found.
TEST(RowCheck, FindsTheFirstAtAnyPlaceAndAlignment) {
  Random random(TestSeed());
  for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    const auto size = static_cast<size_t>(BytesPerElement(type));
    const uint32_t bad = type == RowType::kFloat32   ? 0x7f800000u
                         : type == RowType::kFloat16 ? 0x7c00u
                                                     : 0x7f80u;
    for (int round = 0; round < 300; ++round) {
      const auto count = static_cast<size_t>(random.Between(1, 5000));
      const auto shift = static_cast<size_t>(random.Between(0, 8));
      std::vector<uint8_t> bytes(shift + count * size, 0x11);
      const auto first = static_cast<size_t>(random.Between(0, static_cast<int64_t>(count)));
      const auto second = static_cast<size_t>(
          random.Between(static_cast<int64_t>(first), static_cast<int64_t>(count)));
      const absl::Span<const uint8_t> rows(bytes.data() + shift, count * size);
      EXPECT_EQ(FindNonFinite(type, rows), std::nullopt);
      std::memcpy(bytes.data() + shift + second * size, &bad, size);
      std::memcpy(bytes.data() + shift + first * size, &bad, size);
      EXPECT_EQ(FindNonFinite(type, rows), static_cast<int64_t>(first));
    }
  }
}

// Against a look at each element, for rows that are zero except for at most one element.
TEST(RowCheck, FindsTheFirstRowOfZerosOfEitherSign) {
  Random random(TestSeed());
  for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    const auto size = static_cast<size_t>(BytesPerElement(type));
    const uint32_t sign = type == RowType::kFloat32 ? 0x80000000u : 0x8000u;
    for (int round = 0; round < 300; ++round) {
      const int64_t dim = random.Between(1, 40);
      const int64_t count = random.Between(1, 20);
      std::vector<uint8_t> bytes(static_cast<size_t>(count * dim) * size);
      std::optional<int64_t> expected;
      for (int64_t row = 0; row < count; ++row) {
        const int64_t other = random.Between(0, dim + 1);  // no element in one case of dim + 1
        for (int64_t d = 0; d < dim; ++d) {
          // The smallest magnitude is no zero.
          const uint32_t bits = (random.OneIn(2) ? sign : 0) | (d == other ? 1 : 0);
          std::memcpy(bytes.data() + static_cast<size_t>(row * dim + d) * size, &bits, size);
        }
        if (other == dim && !expected) expected = row;
      }
      EXPECT_EQ(FindZeroRow(type, dim, bytes), expected);
    }
  }
}

TEST(RowCheck, NothingIsFinite) { EXPECT_EQ(FindNonFinite(RowType::kFloat32, {}), std::nullopt); }

}  // namespace
}  // namespace nearfield::corpus
