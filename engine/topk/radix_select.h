// radix_select: its policy, and its launch with any policy.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/topk/algorithm.h"
#include "engine/topk/digit_select.h"

namespace nearfield::gpu {

// 11 bits of an fp32 score are its sign, its exponent and two bits of its mantissa: one pass is
// enough for most rows.
inline constexpr DigitPolicy kRadixSelectPolicy = {
    .digit_bits = 11, .keys_per_block = 8192, .compact_n_min = 1 << 17, .compact_part = 32};

// As the functions of a SelectAlgorithm.
int64_t RadixSelectBytes(const SelectShape& shape, const SelectDevice& device,
                         const DigitPolicy& policy);
cudaError_t LaunchRadixSelect(const SelectCall& call, const DigitPolicy& policy);

}  // namespace nearfield::gpu
