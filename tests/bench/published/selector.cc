#include "tests/bench/published/selector.h"

#include <array>
#include <span>

#include "engine/topk/selector.h"
#include "tests/bench/published/algorithms.h"

namespace nearfield::gpu::published {
namespace {

constexpr std::array kAlgorithms = {
    &kRadixSelect8Bit,  &kHistogram,         &kHistogramUnroll1,      &kHistogramUnroll4,
    &kHistogram256Bins, &kHistogram1024Bins, &kHistogramBinarySearch, &kBlockSort,
    &kBlockFilter,      &kWarpTournament,    &kRadixSortTiered};

}  // namespace

std::span<const SelectAlgorithm* const> Algorithms() { return kAlgorithms; }

absl::StatusOr<std::unique_ptr<select::Selector>> CreateSelector(
    const select::SelectorOptions& options) {
  return select::CreateSelector(options, kAlgorithms);
}

}  // namespace nearfield::gpu::published
