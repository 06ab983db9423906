#include "tests/testing/fake_device_answers.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

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

absl::Status FinishAll(absl::Span<const backend::GenerationView> generations,
                       const backend::QueryTile& tile, const FakeDeviceOptions& options, IdOf id_of,
                       backend::RankedLists* best) {
  struct Answers {
    std::vector<std::vector<float>> scores;
    std::vector<std::vector<uint64_t>> ids;
  };
  auto answers = std::make_shared<Answers>();
  int64_t rows_count = 0;
  for (size_t q = 0; q < tile.k.size(); ++q) {
    const auto k = static_cast<size_t>(tile.k[q]);
    rows_count += tile.k[q];
    std::vector<float> scores(k);
    std::vector<uint64_t> ids(k);
    std::vector<int32_t> counts(tile.k.size());
    const backend::DeviceTile to = {
        .k = tile.k[q], .scores = scores.data(), .ids = ids.data(), .counts = counts.data()};
    WriteAnswer(generations, *best, q, to, id_of, /*at=*/0);
    scores.resize(static_cast<size_t>(counts[0]));
    ids.resize(scores.size());
    scores.reserve(1);  // finished rows have an address, even if there are none
    answers->scores.push_back(std::move(scores));
    answers->ids.push_back(std::move(ids));
  }
  if (rows_count > options.finished_rows_max) {
    return absl::InternalError("more rows than finished_rows_max");
  }
  best->Hold(answers, options.lends);
  for (size_t q = 0; q < tile.k.size(); ++q) {
    best->Finish(q, {.scores = answers->scores[q], .ids = answers->ids[q]});
  }
  return absl::OkStatus();
}

}  // namespace nearfield::testing
