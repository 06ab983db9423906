// radix_select_8bit: radix_select with digits of 8 bits, to show what the shorter digit costs: it
// omits the lowest bit of an fp32 exponent, which leaves far more scores in one bin.
#include <cstdint>

#include "engine/topk/digit_select.h"
#include "engine/topk/radix_select.h"
#include "tests/bench/published/algorithms.h"

namespace nearfield::gpu::published {
namespace {

constexpr DigitPolicy kPolicy = [] {
  DigitPolicy policy = kRadixSelectPolicy;
  policy.digit_bits = 8;
  return policy;
}();

}  // namespace

extern const SelectAlgorithm kRadixSelect8Bit = {
    .name = "radix_select_8bit",
    .summary = "radix_select with digits of 8 bits",
    .refuses = [](const SelectShape& shape,
                  const SelectDevice& device) { return kRadixSelect.refuses(shape, device); },
    .workspace_bytes =
        [](const SelectShape& shape, const SelectDevice& device) {
          return RadixSelectBytes(shape, device, kPolicy);
        },
    .prepare = [](const SelectDevice& device) { return kRadixSelect.prepare(device); },
    .launch = [](const SelectCall& call) { return LaunchRadixSelect(call, kPolicy); }};

}  // namespace nearfield::gpu::published
