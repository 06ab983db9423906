// Conversion of fp16 and bf16 to and from fp32 by bit operations: no compiler extension, so the
// result is the same on every host.
#include <bit>
#include <cmath>
#include <cstring>

#include "nearfield/client/types.h"

namespace nearfield::client {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors travel as little-endian bytes");

constexpr uint32_t kHalfOverflow =
    0x477ff000;  // the smallest fp32 that rounds beyond the largest fp16, 65504
constexpr uint32_t kHalfNormal = 0x38800000;  // 2^-14, the smallest normal fp16

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign == 0 ? magnitude : -magnitude;
  }
  const uint32_t widened = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | (widened << 23) | (mantissa << 13));
}

// Rounds to nearest even. Requires: the value is finite and does not overflow.
uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < kHalfNormal) {
    // fp16 denormals are multiples of 2^-24: the scaling is exact, and nearbyint rounds to nearest
    // even.
    const float units = std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24));
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(units));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

bool StaysFinite(DataType dtype, float value) {
  if (!std::isfinite(value)) return false;
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  if (dtype == DataType::kFloat16) return magnitude < kHalfOverflow;
  return dtype == DataType::kFloat32 || magnitude < 0x7f7f8000u;
}

}  // namespace

std::vector<float> Widen(DataType dtype, std::string_view bytes) {
  std::vector<float> values(bytes.size() / ElementBytes(dtype));
  if (values.empty()) return values;
  if (dtype == DataType::kFloat32) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t narrow = 0;
    std::memcpy(&narrow, bytes.data() + 2 * i, sizeof(narrow));
    values[i] = dtype == DataType::kFloat16
                    ? HalfToFloat(narrow)
                    : std::bit_cast<float>(static_cast<uint32_t>(narrow) << 16);
  }
  return values;
}

bool Narrow(DataType dtype, std::span<const float> values, std::string* bytes) {
  for (const float value : values) {
    if (!StaysFinite(dtype, value)) return false;
    char raw[sizeof(float)];
    if (dtype == DataType::kFloat32) {
      std::memcpy(raw, &value, sizeof(value));
    } else {
      const uint16_t narrow =
          dtype == DataType::kFloat16 ? FloatToHalf(value) : FloatToBFloat16(value);
      std::memcpy(raw, &narrow, sizeof(narrow));
    }
    bytes->append(raw, ElementBytes(dtype));
  }
  return true;
}

}  // namespace nearfield::client
