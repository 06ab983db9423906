// Tests of the conversions between fp32 and the types of vectors, with every fp16 and bf16 value.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "nearfield/client/types.h"
#include "tests/client/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

float Widened(DataType dtype, uint16_t bits) {
  return Widen(dtype, std::string_view(reinterpret_cast<const char*>(&bits), sizeof(bits)))[0];
}

std::optional<uint16_t> Narrowed(DataType dtype, float value) {
  std::string bytes;
  if (!Narrow(dtype, std::span(&value, 1), &bytes)) return std::nullopt;
  uint16_t bits = 0;
  std::memcpy(&bits, bytes.data(), sizeof(bits));
  return bits;
}

// Computes the value of an fp16 from its definition.
double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Encoding, EveryFiniteHalfWidensToItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7c00) == 0x7c00) continue;
    const float wide = Widened(DataType::kFloat16, half);
    ASSERT_EQ(static_cast<double>(wide), HalfValue(half)) << bits;
    ASSERT_EQ(std::signbit(wide), (half & 0x8000) != 0) << bits;
    ASSERT_EQ(Narrowed(DataType::kFloat16, wide), half) << bits;
  }
}

TEST(Encoding, EveryFiniteBFloat16ComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<uint16_t>(bits);
    if ((narrow & 0x7f80) == 0x7f80) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(Widened(DataType::kBFloat16, narrow)), bits << 16);
    ASSERT_EQ(Narrowed(DataType::kBFloat16, Widened(DataType::kBFloat16, narrow)), narrow);
  }
}

// A value between two neighbors of the narrow type becomes the nearer one; a value in the middle
// becomes the even one.
TEST(Encoding, RoundsToNearestEvenBetweenAllNeighbors) {
  for (const auto& [dtype, last] : {std::pair(DataType::kFloat16, uint16_t{0x7bff}),
                                    std::pair(DataType::kBFloat16, uint16_t{0x7f7f})}) {
    for (uint16_t bits = 0; bits < last; ++bits) {
      const auto next = static_cast<uint16_t>(bits + 1);
      const double low = static_cast<double>(Widened(dtype, bits));
      const double high = static_cast<double>(Widened(dtype, next));
      const auto middle = static_cast<float>((low + high) / 2);
      if (static_cast<double>(middle) != (low + high) / 2) continue;  // fp32 cannot represent it
      const uint16_t even = (bits & 1) == 0 ? bits : next;
      ASSERT_EQ(Narrowed(dtype, middle), even) << bits;
      const float below = std::nextafter(middle, 0.0f);
      const float above = std::nextafter(middle, INFINITY);
      ASSERT_EQ(Narrowed(dtype, below), bits) << bits;
      ASSERT_EQ(Narrowed(dtype, above), next) << bits;
      ASSERT_EQ(Narrowed(dtype, -below), static_cast<uint16_t>(bits | 0x8000)) << bits;
    }
  }
}

TEST(Encoding, WhatWouldBecomeInfiniteIsRefused) {
  EXPECT_EQ(Narrowed(DataType::kFloat16, 65504.0f), 0x7bff);
  EXPECT_EQ(Narrowed(DataType::kFloat16, std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(Narrowed(DataType::kFloat16, 65520.0f), std::nullopt);
  const float bf16_max = std::bit_cast<float>(0x7f7f0000u);
  EXPECT_EQ(Narrowed(DataType::kBFloat16, bf16_max), 0x7f7f);
  EXPECT_EQ(Narrowed(DataType::kBFloat16, std::bit_cast<float>(0x7f7f8000u)), std::nullopt);
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    std::string bytes;
    for (const float value : {INFINITY, -INFINITY, NAN}) {
      EXPECT_FALSE(Narrow(dtype, std::span(&value, 1), &bytes));
    }
    EXPECT_TRUE(bytes.empty());
  }
}

TEST(Encoding, Float32IsUntouched) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  for (int i = 0; i < 10000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    std::string bytes;
    ASSERT_TRUE(Narrow(DataType::kFloat32, std::span(&value, 1), &bytes));
    ASSERT_EQ(std::bit_cast<uint32_t>(Widen(DataType::kFloat32, bytes)[0]),
              std::bit_cast<uint32_t>(value));
  }
}

}  // namespace
}  // namespace nearfield::client
