// The list of selection algorithms, and the policy that picks one for a shape.
#include <array>
#include <cstdint>
#include <span>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu {
namespace {

constexpr std::array kAlgorithms = {&kSampledThreshold, &kShortRow, &kRadixSelect, &kRadixSort};

// A shape is served by the first entry whose bounds it meets and whose algorithm accepts it.
//
// Measured on an H200 (tests/bench/receipts/select_nvidia_h200.json, 37 shapes with every
// algorithm): none is faster than the choice by more than 7 %, and each that is faster is the
// chosen algorithm, timed again. block_sort and block_filter of tests/bench/published are faster
// than radix_select at k = 1 and slower at k >= 8, for one row of a million scores and for 1,024
// rows of 16,384. The switch that was published for them lies in between. The choice is at least
// 1.25 times as fast as either there.
struct SelectPolicyEntry {
  int64_t n_max;
  bool many_rows;  // also serves more rows than there are SMs
  int64_t k_max;
  const SelectAlgorithm* algorithm;
};
constexpr std::array kPolicy = {
    SelectPolicyEntry{
        .n_max = 3072, .many_rows = true, .k_max = INT64_MAX, .algorithm = &kShortRow},
    SelectPolicyEntry{
        .n_max = 16384, .many_rows = false, .k_max = INT64_MAX, .algorithm = &kShortRow},
    SelectPolicyEntry{
        .n_max = INT64_MAX, .many_rows = true, .k_max = 6144, .algorithm = &kSampledThreshold},
    // On a device without the shared memory for the entry above.
    SelectPolicyEntry{
        .n_max = INT64_MAX, .many_rows = true, .k_max = 6144, .algorithm = &kRadixSelect},
    SelectPolicyEntry{
        .n_max = INT64_MAX, .many_rows = true, .k_max = INT64_MAX, .algorithm = &kRadixSort},
};

}  // namespace

const SelectAlgorithm& ChooseSelect(const SelectShape& shape, const SelectDevice& device) {
  for (const SelectPolicyEntry& entry : kPolicy) {
    const bool holds = shape.n <= entry.n_max && shape.k <= entry.k_max &&
                       (entry.many_rows || shape.batch <= device.sm_count);
    if (holds && entry.algorithm->refuses(shape, device) == nullptr) {
      return *entry.algorithm;
    }
  }
  return kRadixSort;  // accepts every shape
}

std::span<const SelectAlgorithm* const> AllSelectAlgorithms() { return kAlgorithms; }

}  // namespace nearfield::gpu
