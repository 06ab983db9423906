#include "nearfield/engine/row_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace nearfield {
namespace {

using ::absl_testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint8_t> Bytes16(uint16_t bits) {
  return {static_cast<uint8_t>(bits & 0xff), static_cast<uint8_t>(bits >> 8)};
}

// Returns the value of a binary16, from the definition of the format.
double HalfValue(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(RowCodecTest, EveryHalfWidensToItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    std::vector<float> values;
    ASSERT_OK(WidenToFloat(RowType::kFloat16, Bytes16(half), &values));
    ASSERT_EQ(values.size(), 1u);
    if (((half >> 10) & 31) == 31) {
      ASSERT_EQ((half & 1023) == 0 ? std::isinf(values[0]) : std::isnan(values[0]), true) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(values[0]), HalfValue(half)) << bits;
      ASSERT_EQ(std::signbit(values[0]), (half & 0x8000) != 0) << bits;
    }
  }
}

TEST(RowCodecTest, EveryBfloat16IsTheUpperHalfOfItsFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    std::vector<float> values;
    ASSERT_OK(WidenToFloat(RowType::kBFloat16, Bytes16(static_cast<uint16_t>(bits)), &values));
    ASSERT_EQ(std::bit_cast<uint32_t>(values[0]), bits << 16);
  }
}

TEST(RowCodecTest, FloatsComeThroughBitForBitAndAreAppended) {
  const std::vector<float> from = {1.0f, -0.0f, std::bit_cast<float>(1u),
                                   std::bit_cast<float>(0x7fc12345u)};
  std::vector<uint8_t> bytes(from.size() * 4);
  std::memcpy(bytes.data(), from.data(), bytes.size());
  std::vector<float> values = {7.0f};
  ASSERT_OK(WidenToFloat(RowType::kFloat32, bytes, &values));
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(std::memcmp(values.data() + 1, from.data(), bytes.size()), 0);
}

TEST(RowCodecTest, PartOfAnElementIsRefusedAndChangesNothing) {
  std::vector<float> values = {7.0f};
  EXPECT_THAT(WidenToFloat(RowType::kFloat32, std::vector<uint8_t>(6), &values),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("6 bytes")));
  EXPECT_THAT(WidenToFloat(RowType::kFloat16, std::vector<uint8_t>(1), &values),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(values, ElementsAre(7.0f));
  EXPECT_OK(WidenToFloat(RowType::kFloat16, {}, &values));
  EXPECT_THAT(values, ElementsAre(7.0f));
}

}  // namespace
}  // namespace nearfield
