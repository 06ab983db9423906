#include "engine/plan/path_costs.h"

#include <algorithm>

#include "absl/numeric/bits.h"

namespace nearfield::plan {
namespace {

// The share of a new measurement. One slow search, for example the first one of a process, does not
// decide alone.
constexpr float kWeight = 0.25f;
constexpr float kExcessMax = 63.0f;
// By which the excess of another path shrinks, per search: the slower a path was, the longer it is
// not tried again.
constexpr float kReturn = 1.0f / 64;

void MoveTo(std::atomic<float>& excess, float value, float weight) {
  const float now = excess.load(std::memory_order_relaxed);
  excess.store(now + weight * (value - now), std::memory_order_relaxed);
}

}  // namespace

size_t PathCosts::ClassOf(int64_t value) {
  const auto bits = static_cast<size_t>(absl::bit_width(static_cast<uint64_t>(value)));
  return std::min(bits, size_t{kClasses - 1});
}

ScanPath PathCosts::Fastest(absl::Span<const ScanPath> paths, const ScanWork& work,
                            int32_t k) const {
  const Excesses& excesses = Of(work, k);
  const auto time = [&](ScanPath path) {
    const float excess = excesses[static_cast<size_t>(path)].load(std::memory_order_relaxed);
    return ScanTime(path, work) * (1.0 + static_cast<double>(excess));
  };
  return *std::min_element(paths.begin(), paths.end(),
                           [&](ScanPath a, ScanPath b) { return time(a) < time(b); });
}

void PathCosts::Record(ScanPath path, const ScanWork& work, int32_t k, double us) {
  Excesses& excesses = Of(work, k);
  const auto measured = static_cast<float>(us / ScanTime(path, work) - 1.0);
  for (size_t i = 0; i < excesses.size(); ++i) {
    const bool taken = i == static_cast<size_t>(path);
    MoveTo(excesses[i], taken ? std::clamp(measured, 0.0f, kExcessMax) : 0.0f,
           taken ? kWeight : kReturn);
  }
}

}  // namespace nearfield::plan
