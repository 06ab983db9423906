// radix_select: its policies, and the variant that differs in them alone.
#pragma once

#include <array>
#include <cstdint>

#include "engine/topk/algorithm.h"
#include "engine/topk/published/digit_select.h"

namespace nearfield::gpu {

// 11 bits of an fp32 score are its sign, its exponent and two bits of its mantissa: one pass is
// enough for most rows. 8 bits omit the lowest bit of the exponent, which leaves far more scores in
// one bin; the second policy shows the effect.
inline constexpr std::array<DigitPolicy, 2> kRadixSelectPolicies = {{
    {.digit_bits = 11, .keys_per_block = 8192, .compact_n_min = 1 << 17, .compact_part = 32},
    {.digit_bits = 8, .keys_per_block = 8192, .compact_n_min = 1 << 17, .compact_part = 32},
}};

extern const SelectAlgorithm kRadixSelect;
extern const SelectAlgorithm kRadixSelect8Bit;

}  // namespace nearfield::gpu
