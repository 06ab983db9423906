// The list of selection algorithms, and which one serves a shape.
#include <array>
#include <cstdint>
#include <span>

#include "engine/gpu/kernels/select/algorithm.h"
#include "engine/gpu/kernels/select/histogram.h"
#include "engine/gpu/kernels/select/radix_select.h"

namespace nearfield::gpu {
namespace {

constexpr std::array kAlgorithms = {&kSampledThreshold, &kShortRow,        &kRadixSelect,
                                    &kRadixSelect8Bit,  &kHistogram,       &kHistogramUnroll1,
                                    &kHistogramUnroll4, &kBlockSort,       &kBlockFilter,
                                    &kWarpTournament,   &kRadixSortTiered, &kRadixSort};

// The first entry whose bounds hold a shape, and whose algorithm does not refuse it, serves it.
//
// Measured on an H200 (tests/bench/receipts/select_nvidia_h200.json, 37 shapes with every
// algorithm): no other is faster than the choice by more than 7 %, and where one is, it is the
// chosen one, timed again. Among the published ones, block_sort and block_filter are ahead of
// radix_select at k = 1 and behind it from k = 8 on, for one row of a million scores and for 1,024
// of 16,384: the switch that was published for them lies between, and the choice is at least 1.25
// times as fast as either there. So there is no entry for them.
struct SelectPolicyEntry {
  int64_t n_max;
  bool many_rows;  // more than there are SMs too
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
    SelectPolicyEntry{
        .n_max = INT64_MAX, .many_rows = true, .k_max = INT64_MAX, .algorithm = &kRadixSort},
};

}  // namespace

const SelectAlgorithm& ChooseSelect(const SelectShape& shape, const SelectFacts& facts) {
  for (const SelectPolicyEntry& entry : kPolicy) {
    const bool holds = shape.n <= entry.n_max && shape.k <= entry.k_max &&
                       (entry.many_rows || shape.batch <= facts.sm_count);
    if (holds && entry.algorithm->refuses(shape, facts) == nullptr) {
      return *entry.algorithm;
    }
  }
  return kRadixSort;  // refuses nothing
}

std::span<const SelectAlgorithm* const> AllSelectAlgorithms() { return kAlgorithms; }

}  // namespace nearfield::gpu
