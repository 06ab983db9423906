#include "client/cli/canonical_score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace nearfield::client {
namespace {

constexpr size_t kLanes = 32;

double Fold(std::array<double, kLanes> lanes) {
  for (size_t half = kLanes / 2; half >= 1; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

double Dot(std::span<const float> a, std::span<const float> b) {
  std::array<double, kLanes> lanes{};
  for (size_t d = 0; d < a.size(); ++d) {
    lanes[d % kLanes] += static_cast<double>(a[d]) * static_cast<double>(b[d]);
  }
  return Fold(lanes);
}

double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  std::array<double, kLanes> lanes{};
  for (size_t d = 0; d < a.size(); ++d) {
    const double t = static_cast<double>(a[d]) - static_cast<double>(b[d]);
    lanes[d % kLanes] = std::fma(t, t, lanes[d % kLanes]);
  }
  return Fold(lanes);
}

}  // namespace

float CanonicalScore(Metric metric, std::span<const float> query, std::span<const float> row) {
  if (metric == Metric::kL2) return 0.0f - static_cast<float>(SquaredDistance(query, row));
  const double dot = Dot(query, row);
  if (metric == Metric::kDot) return static_cast<float>(dot) + 0.0f;
  const double row_square = Dot(row, row);
  if (row_square == 0) return -HUGE_VALF;
  const double cosine = dot / (std::sqrt(Dot(query, query)) * std::sqrt(row_square));
  return std::clamp(static_cast<float>(cosine) + 0.0f, -1.0f, 1.0f);
}

}  // namespace nearfield::client
