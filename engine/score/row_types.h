// Exact conversion of stored row elements (fp16, bf16) to fp32, without hardware or compiler
// support; and of fp32 to the narrow types.
#pragma once

#include <cstdint>

#include "engine/score/host_device.h"
#include "engine/score/score.h"

namespace nearfield::score {

// Converts IEEE binary16 bits to fp32. Exact for every value, including denormals and non-finite
// ones.
NEARFIELD_HOST_DEVICE inline float FloatFromHalfBits(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return FloatFromBits(BitsFromFloat(magnitude) | sign);
  }
  if (exponent == 31) return FloatFromBits(sign | 0x7f800000u | (mantissa << 13));
  return FloatFromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Converts bfloat16 bits to fp32. Exact.
NEARFIELD_HOST_DEVICE inline float FloatFromBfloat16Bits(uint16_t bits) {
  return FloatFromBits(static_cast<uint32_t>(bits) << 16);
}

// Converts fp32 to binary16 bits, rounded to nearest even; a value that rounds above the largest
// finite one becomes infinity. Requires: finite.
inline uint16_t HalfBitsFromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65536
  if (magnitude < 0x38800000u) {  // below the smallest normal: units of 2^-24; the fp32 addition
                                  // rounds ties to even
    const float shifted = FloatFromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsFromFloat(shifted) & 0xffffu));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Converts fp32 to bfloat16 bits, rounded to nearest even; the largest values become infinity.
// Requires: finite.
inline uint16_t Bfloat16BitsFromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace nearfield::score
