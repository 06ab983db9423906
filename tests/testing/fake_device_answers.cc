#include "tests/testing/fake_device_answers.h"

#include <algorithm>
#include <cmath>

namespace nearfield::testing {

std::optional<int32_t> FaultOf(Metric metric, absl::Span<const float> query) {
  for (size_t d = 0; d < query.size(); ++d) {
    if (!std::isfinite(query[d])) return static_cast<int32_t>(d);
  }
  const auto zero = [](float value) { return value == 0.0f; };
  if (metric == Metric::kCosine && std::all_of(query.begin(), query.end(), zero)) return -1;
  return std::nullopt;
}

void WriteAnswer(absl::Span<const backend::GenerationView> generations,
                 const backend::RankedLists& lists, size_t query, const backend::DeviceTile& tile,
                 IdOf id_of, size_t at) {
  std::vector<std::pair<float, uint64_t>> rows;
  for (size_t g = 0; g < generations.size(); ++g) {
    for (const backend::RankedScore& row : lists.list(query, g)) {
      if (row.score < tile.score_min) continue;
      rows.emplace_back(row.score, id_of(*generations[g].planes, row.rank));
    }
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  const auto k = static_cast<size_t>(tile.k);
  rows.resize(std::min(rows.size(), k));
  tile.counts[at] = static_cast<int32_t>(rows.size());
  for (size_t i = 0; i < k; ++i) {
    const bool known = i < rows.size();
    tile.scores[at * k + i] = known ? rows[i].first : std::nanf("");
    tile.ids[at * k + i] = known ? rows[i].second : ~uint64_t{0};
  }
}

}  // namespace nearfield::testing
