#include "engine/plan/path_costs.h"

#include <algorithm>

#include "absl/numeric/bits.h"

namespace nearfield::plan {
namespace {

// The share of a new measurement. One slow search, for example the first one of a process, does not
// decide alone.
constexpr float kWeight = 0.25f;
constexpr float kRatioMax = 64.0f;
// By which the other path's ratio returns to 1, per search: the slower a path was, the longer it is
// not tried again.
constexpr float kReturn = 1.0f / 64;

void MoveTo(std::atomic<float>& ratio, float value, float weight) {
  const float now = ratio.load(std::memory_order_relaxed);
  ratio.store(now + weight * (value - now), std::memory_order_relaxed);
}

}  // namespace

size_t PathCosts::ClassOf(int64_t value) {
  const auto bits = static_cast<size_t>(absl::bit_width(static_cast<uint64_t>(value)));
  return std::min(bits, size_t{kClasses - 1});
}

bool PathCosts::PrefersCodes(const ScanWork& work, int32_t k) const {
  const Ratios& ratios = RatiosOf(work, k);
  return CodeScanTime(work) * static_cast<double>(ratios.codes.load(std::memory_order_relaxed)) <
         RowScanTime(work) * static_cast<double>(ratios.rows.load(std::memory_order_relaxed));
}

void PathCosts::Record(ScanPath path, const ScanWork& work, int32_t k, double us) {
  Ratios& ratios = RatiosOf(work, k);
  const bool codes = path == ScanPath::kCodes;
  const double predicted = codes ? CodeScanTime(work) : RowScanTime(work);
  const auto measured = static_cast<float>(us / predicted);
  MoveTo(codes ? ratios.codes : ratios.rows, std::clamp(measured, 1.0f, kRatioMax), kWeight);
  MoveTo(codes ? ratios.rows : ratios.codes, 1.0f, kReturn);
}

}  // namespace nearfield::plan
