// PathCosts: learns which way to scan some rows is fastest, from the searches so far.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/plan/scan_cost.h"

namespace nearfield::plan {

// scan_cost.h predicts the time of a search from its shape alone. How many rows a bound leaves, and
// so how long a search takes, depends on the data. This class keeps, for each size of batch and of
// k, the ratio of the measured time to the predicted one, at least 1. The ratios of the paths that
// are not taken slowly return to 1, so a path that was slower than predicted is tried again from
// time to time.
// Thread safety: safe.
class PathCosts {
 public:
  // Returns the path that is expected to be the fastest. Requires: at least one path.
  ScanPath Fastest(absl::Span<const ScanPath> paths, const ScanWork& work, int32_t k) const;
  // Learns from a search that took `us` on `path`.
  void Record(ScanPath path, const ScanWork& work, int32_t k, double us);

 private:
  // Measured time / predicted time - 1 of each path, at least 0.
  using Excesses = std::array<std::atomic<float>, kScanPaths>;
  static constexpr int kClasses = 16;  // powers of two

  static size_t ClassOf(int64_t value);
  Excesses& Of(const ScanWork& work, int32_t k) {
    return excesses_[ClassOf(work.queries)][ClassOf(k)];
  }
  const Excesses& Of(const ScanWork& work, int32_t k) const {
    return excesses_[ClassOf(work.queries)][ClassOf(k)];
  }

  std::array<std::array<Excesses, kClasses>, kClasses> excesses_ = {};  // [queries][k]
};

}  // namespace nearfield::plan
