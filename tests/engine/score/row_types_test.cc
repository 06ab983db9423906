// Tests of the conversion of stored elements to fp32 and back, against the definition of the
// formats: value = (-1)^s * mantissa * 2^exponent.
#include "engine/score/row_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::score {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};
constexpr Format kHalf = {.exponent_bits = 5, .mantissa_bits = 10};
constexpr Format kBfloat16 = {.exponent_bits = 8, .mantissa_bits = 7};

uint32_t ExponentField(Format format, uint32_t bits) {
  return (bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1u);
}
bool IsFinite(Format format, uint32_t bits) {
  return ExponentField(format, bits) != (1u << format.exponent_bits) - 1u;
}

// Returns the value of finite `bits`.
double Value(Format format, uint32_t bits) {
  const auto mantissa = static_cast<double>(bits & ((1u << format.mantissa_bits) - 1u));
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(ExponentField(format, bits));
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, 1 - bias - format.mantissa_bits)
                               : std::ldexp(mantissa + std::ldexp(1.0, format.mantissa_bits),
                                            exponent - bias - format.mantissa_bits);
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

float FromBits(Format format, uint32_t bits) {
  const auto narrow = static_cast<uint16_t>(bits);
  return format.exponent_bits == 5 ? FloatFromHalfBits(narrow) : FloatFromBfloat16Bits(narrow);
}
uint32_t ToBits(Format format, float value) {
  return format.exponent_bits == 5 ? HalfBitsFromFloat(value) : Bfloat16BitsFromFloat(value);
}

class NarrowFormat : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, NarrowFormat, ::testing::Values(kHalf, kBfloat16),
                         [](const auto& format) {
                           return format.param.exponent_bits == 5 ? "Half" : "Bfloat16";
                         });

TEST_P(NarrowFormat, EveryFiniteValueBecomesItselfInFp32) {
  const Format format = GetParam();
  for (uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    if (!IsFinite(format, bits)) continue;
    const float value = FromBits(format, bits);
    ASSERT_EQ(static_cast<double>(value), Value(format, bits)) << std::hex << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << std::hex << bits;
  }
}

TEST_P(NarrowFormat, InfinitiesAndNansStaySo) {
  const Format format = GetParam();
  const uint32_t mantissa = (1u << format.mantissa_bits) - 1u;
  for (uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    if (IsFinite(format, bits)) continue;
    const float value = FromBits(format, bits);
    ASSERT_EQ(std::isinf(value), (bits & mantissa) == 0) << std::hex << bits;
    ASSERT_EQ(std::isnan(value), (bits & mantissa) != 0) << std::hex << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000u) != 0) << std::hex << bits;
  }
}

TEST_P(NarrowFormat, EveryFiniteValueComesBackFromFp32) {
  const Format format = GetParam();
  for (uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    if (!IsFinite(format, bits)) continue;
    ASSERT_EQ(ToBits(format, FromBits(format, bits)), bits);
  }
}

// Rounding is monotone, so the midpoints between neighboring values determine it everywhere.
TEST_P(NarrowFormat, EveryMidpointRoundsToEvenAndItsNeighborsToTheNearest) {
  const Format format = GetParam();
  constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t low = 0; IsFinite(format, low + 1); ++low) {
      const double middle = (Value(format, low) + Value(format, low + 1)) / 2;
      const auto border = static_cast<float>(sign != 0 ? -middle : middle);
      if (static_cast<double>(std::fabs(border)) != middle)
        continue;  // the smallest denormals of bfloat16
      const float toward_zero = std::nextafter(border, 0.0f);
      const float away = std::nextafter(border, sign != 0 ? -kFloatInfinity : kFloatInfinity);
      ASSERT_EQ(ToBits(format, border), sign | ((low + 1u) & ~1u)) << std::hex << low;
      ASSERT_EQ(ToBits(format, toward_zero), sign | low) << std::hex << low;
      ASSERT_EQ(ToBits(format, away), sign | (low + 1u)) << std::hex << low;
    }
  }
}

TEST_P(NarrowFormat, BeyondTheGreatestFiniteValueRoundsToInfinity) {
  const Format format = GetParam();
  const uint32_t infinity = ((1u << format.exponent_bits) - 1u) << format.mantissa_bits;
  const double greatest = Value(format, infinity - 1u);
  const double border = greatest + (greatest - Value(format, infinity - 2u)) / 2;
  for (float sign : {1.0f, -1.0f}) {
    const uint32_t sign_bit = sign < 0 ? 0x8000u : 0u;
    const float tie = sign * static_cast<float>(border);
    EXPECT_EQ(ToBits(format, tie), sign_bit | infinity);
    EXPECT_EQ(ToBits(format, std::nextafter(tie, 0.0f)), sign_bit | (infinity - 1u));
    EXPECT_EQ(ToBits(format, sign * std::numeric_limits<float>::max()), sign_bit | infinity);
  }
}

#ifdef __FLT16_MANT_DIG__
TEST(HalfFormat, AgreesWithTheCompilersOwnType) {
  testing::Random random(testing::TestSeed());
  for (int i = 0; i < 200000; ++i) {
    const float value = FloatFromBits(static_cast<uint32_t>(random.Bits()));
    if (!std::isfinite(value)) continue;
    const _Float16 half = static_cast<_Float16>(value);
    uint16_t bits;
    static_assert(sizeof(half) == sizeof(bits));
    __builtin_memcpy(&bits, &half, sizeof(bits));
    ASSERT_EQ(HalfBitsFromFloat(value), bits) << value;
  }
}
#endif

}  // namespace
}  // namespace nearfield::score
