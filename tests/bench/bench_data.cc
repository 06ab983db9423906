#include "tests/bench/bench_data.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "absl/types/span.h"

namespace nearfield::bench {
namespace {

// SplitMix64: a small counter-based generator, so any row can be drawn independently.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The Box-Muller transform: two normal values from two uniform ones.
void FillRow(uint64_t seed, int64_t row, int32_t dim, float* out) {
  uint64_t state = Mix(seed ^ Mix(static_cast<uint64_t>(row)));
  for (int32_t d = 0; d < dim; d += 2) {
    state = Mix(state);
    const double u = (static_cast<double>(state >> 40) + 0.5) * 0x1p-24;
    const double v = static_cast<double>(state & 0xffffffu) * 0x1p-24;
    const double radius = std::sqrt(-2.0 * std::log(u));
    out[d] = static_cast<float>(radius * std::cos(6.283185307179586 * v));
    if (d + 1 < dim) out[d + 1] = static_cast<float>(radius * std::sin(6.283185307179586 * v));
  }
}

constexpr uint64_t kCentreSeed = 77;
constexpr int64_t kCentres = 1000;
constexpr int32_t kOutlierDims = 8;

void ShapeRow(DataKind kind, uint64_t seed, int64_t row, absl::Span<const float> centres,
              absl::Span<float> values) {
  const auto dim = static_cast<int64_t>(values.size());
  if (kind == DataKind::kClustered) {
    const uint64_t drawn = Mix(~seed ^ Mix(static_cast<uint64_t>(row)));
    const float* const centre =
        centres.data() + static_cast<int64_t>(drawn % static_cast<uint64_t>(kCentres)) * dim;
    for (int64_t d = 0; d < dim; ++d) values[d] = centre[d] + 0.4f * values[d];
  } else if (kind == DataKind::kOutliers) {
    for (int32_t i = 0; i < kOutlierDims; ++i) {
      values[Mix(kCentreSeed + static_cast<uint64_t>(i)) % static_cast<uint64_t>(dim)] *= 30.0f;
    }
  } else if (kind == DataKind::kDominant) {
    std::fill(values.begin(), values.end(), 0.0f);
    values[0] = 10.0f;
    const uint64_t drawn = Mix(seed ^ Mix(~static_cast<uint64_t>(row)));
    values[dim == 1 ? 0 : 1 + drawn % static_cast<uint64_t>(dim - 1)] = 1.0f;
  } else if (kind == DataKind::kHeavyTails) {
    uint64_t drawn = Mix(seed ^ Mix(~static_cast<uint64_t>(row)));
    for (float& value : values) {
      drawn = Mix(drawn);
      const double u = (static_cast<double>(drawn >> 40) + 0.5) * 0x1p-24;
      value *= static_cast<float>(std::pow(u, -0.7));
    }
  }
}

}  // namespace

std::vector<float> GaussianRows(int64_t rows_count, int32_t dim, uint64_t seed) {
  return MakeRows(DataKind::kGaussian, rows_count, dim, seed);
}

std::vector<float> MakeRows(DataKind kind, int64_t rows_count, int32_t dim, uint64_t seed) {
  std::vector<float> rows(static_cast<size_t>(rows_count) * static_cast<size_t>(dim));
  std::vector<float> centres;
  if (kind == DataKind::kClustered) centres = GaussianRows(kCentres, dim, kCentreSeed);
  constexpr int64_t kRowsAtOnce = 1024;
  std::atomic<int64_t> next{0};
  const auto fill = [&] {
    for (int64_t begin = next.fetch_add(kRowsAtOnce); begin < rows_count;
         begin = next.fetch_add(kRowsAtOnce)) {
      const int64_t end = std::min(begin + kRowsAtOnce, rows_count);
      for (int64_t row = begin; row < end; ++row) {
        float* const values = rows.data() + row * dim;
        FillRow(seed, row, dim, values);
        ShapeRow(kind, seed, row, centres, absl::MakeSpan(values, static_cast<size_t>(dim)));
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(fill);
  fill();
  for (std::thread& thread : threads) thread.join();
  return rows;
}

}  // namespace nearfield::bench
