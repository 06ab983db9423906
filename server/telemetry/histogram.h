// Histogram: counts values in buckets.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::server {

// Upper bounds of the buckets, inclusive and ascending. One more bucket holds larger values.
inline constexpr std::array<int64_t, 18> kTimeBucketsUs = {
    50,     100,     250,     500,     1'000,     2'500,     5'000,      10'000,     25'000,
    50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 10'000'000, 60'000'000, 600'000'000};
inline constexpr std::array<int64_t, 11> kBatchBuckets = {1,  2,   4,   8,    16,   32,
                                                          64, 128, 256, 1024, 65536};

// Its owner locks it.
class Histogram {
 public:
  // `bounds` outlives the histogram.
  explicit Histogram(absl::Span<const int64_t> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void Add(int64_t value) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    ++counts_[static_cast<size_t>(bucket)];
    ++count_;
    sum_ += value;
  }
  // Adds the values of `other`. Requires: it has the same bounds.
  void Add(const Histogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
  }

  absl::Span<const int64_t> bounds() const { return bounds_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // one more than bounds()
  int64_t count() const { return count_; }
  int64_t sum() const { return sum_; }

 private:
  absl::Span<const int64_t> bounds_;
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t sum_ = 0;
};

}  // namespace nearfield::server
