#include "engine/corpus/merge_policy.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "nearfield/engine/types.h"

namespace nearfield::corpus {
namespace {

// A balanced merge may copy kCostRatioMax times the rows of the cheapest one, or kSmallRows rows,
// if it frees more generations. So a single commit never waits much longer than it must.
constexpr int64_t kCostRatioMax = 4;
constexpr int64_t kSmallRows = 16'384;

std::vector<size_t> BySize(absl::Span<const int64_t> rows_live) {
  std::vector<size_t> order(rows_live.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [rows_live](size_t a, size_t b) { return rows_live[a] < rows_live[b]; });
  return order;
}

// Generations [begin, end) in order of size.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  int64_t rows = 0;

  size_t places_freed() const { return end - begin - 1; }
};

std::vector<Window> BalancedWindows(absl::Span<const int64_t> sorted) {
  std::vector<Window> windows;
  for (size_t begin = 0; begin + 1 < sorted.size(); ++begin) {
    int64_t rows = sorted[begin];
    for (size_t end = begin + 1; end < sorted.size(); ++end) {
      const bool balanced = sorted[end] <= 2 * rows;
      rows += sorted[end];
      if (rows > kRowsMax) break;
      if (balanced) windows.push_back({.begin = begin, .end = end + 1, .rows = rows});
    }
  }
  return windows;
}

}  // namespace

std::vector<size_t> ChooseMerge(absl::Span<const int64_t> rows_live) {
  const std::vector<size_t> order = BySize(rows_live);
  std::vector<int64_t> sorted;
  sorted.reserve(order.size());
  for (const size_t index : order) sorted.push_back(rows_live[index]);

  const std::vector<Window> windows = BalancedWindows(sorted);
  if (windows.empty()) return SmallestMerge(rows_live);
  int64_t rows_min = std::numeric_limits<int64_t>::max();
  for (const Window& window : windows) rows_min = std::min(rows_min, window.rows);
  const int64_t rows_max = std::max(kCostRatioMax * rows_min, kSmallRows);

  const Window* best = nullptr;
  for (const Window& window : windows) {
    if (window.rows > rows_max) continue;
    // Compares rows / places_freed by cross-multiplication; products are at most 2^32 * 16.
    if (best == nullptr || window.rows * static_cast<int64_t>(best->places_freed()) <
                               best->rows * static_cast<int64_t>(window.places_freed())) {
      best = &window;
    }
  }
  return {order.begin() + static_cast<int64_t>(best->begin),
          order.begin() + static_cast<int64_t>(best->end)};
}

std::vector<size_t> SmallestMerge(absl::Span<const int64_t> rows_live) {
  std::vector<size_t> order = BySize(rows_live);
  if (order.size() < 2 || rows_live[order[0]] + rows_live[order[1]] > kRowsMax) return {};
  order.resize(2);
  return order;
}

}  // namespace nearfield::corpus
