// PathCosts: learns which way to scan some rows is faster, from the searches so far.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/plan/scan_cost.h"

namespace nearfield::plan {

enum class ScanPath : uint8_t { kCodes, kRows };

// scan_cost.h predicts the time of a search from its shape alone. How many rows the codes leave,
// and so how long a scan of codes takes, depends on the data. This class keeps, for each size of
// batch and of k, the ratio of the measured time to the predicted one, at least 1. The ratio of the
// path that is not taken slowly returns to 1, so a path that was slower than predicted is tried
// again from time to time.
// Thread safety: safe.
class PathCosts {
 public:
  // Returns true if a scan of codes is expected to be faster.
  bool PrefersCodes(const ScanWork& work, int32_t k) const;
  // Learns from a search that took `us` on `path`.
  void Record(ScanPath path, const ScanWork& work, int32_t k, double us);

 private:
  // Measured time / predicted time, at least 1.
  struct Ratios {
    std::atomic<float> codes = 1;
    std::atomic<float> rows = 1;
  };
  static constexpr int kClasses = 16;  // powers of two

  static size_t ClassOf(int64_t value);
  Ratios& RatiosOf(const ScanWork& work, int32_t k) {
    return ratios_[ClassOf(work.queries)][ClassOf(k)];
  }
  const Ratios& RatiosOf(const ScanWork& work, int32_t k) const {
    return ratios_[ClassOf(work.queries)][ClassOf(k)];
  }

  std::array<std::array<Ratios, kClasses>, kClasses> ratios_;  // [queries][k]
};

}  // namespace nearfield::plan
