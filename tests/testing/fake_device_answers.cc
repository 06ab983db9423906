#include "tests/testing/fake_device_answers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "engine/backend/query_views.h"

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
  struct Answer {
    std::vector<float> scores;
    std::vector<uint64_t> ids;
    backend::FinishedRows rows() const { return {.scores = scores, .ids = ids}; }
  };
  // Each answer has two places. The rows that matter are in one of them.
  auto answers = std::make_shared<std::vector<std::array<Answer, 2>>>(tile.k.size());
  int64_t rows_count = 0;
  for (const int32_t k : tile.k) rows_count += k;
  if (rows_count > options.finished_rows_max) {
    return absl::InternalError("more rows than finished_rows_max");
  }
  best->Hold(answers, options.lends);
  for (size_t q = 0; q < tile.k.size(); ++q) {
    const int64_t rows_live = backend::RowsLive(backend::ViewsOf(generations, tile, q));
    const auto count = static_cast<size_t>(std::min<int64_t>(tile.k[q], rows_live));
    for (Answer& answer : (*answers)[q]) {
      answer.scores.reserve(1);  // finished rows have an address, even if there are none
      answer.scores.assign(count, std::nanf(""));
      answer.ids.assign(count, ~uint64_t{0});
    }
    best->Finish(q, (*answers)[q][0].rows());
    if (tile.placed) tile.placed(static_cast<int64_t>(q));
  }
  const bool surprises = options.lends && tile.finish == backend::Finish::kSome;
  for (size_t q = 0; q < tile.k.size(); ++q) {
    if (surprises && q % 5 == 3) {  // it has lists after all
      best->Unfinish(q);
      continue;
    }
    Answer& answer = (*answers)[q][surprises && q % 5 == 2 ? 1 : 0];
    const auto k = static_cast<size_t>(tile.k[q]);
    std::vector<float> scores(k);
    std::vector<uint64_t> ids(k);
    int32_t count = 0;
    const backend::DeviceTile to = {
        .k = tile.k[q], .scores = scores.data(), .ids = ids.data(), .counts = &count};
    WriteAnswer(generations, *best, q, to, id_of, /*at=*/0);
    const auto rows = static_cast<size_t>(count);
    if (rows > answer.ids.size()) return absl::InternalError("more rows than live ones");
    std::copy_n(scores.begin(), rows, answer.scores.begin());
    std::copy_n(ids.begin(), rows, answer.ids.begin());
    best->Finish(q, {.scores = absl::MakeConstSpan(answer.scores).first(rows),
                     .ids = absl::MakeConstSpan(answer.ids).first(rows)});
  }
  return absl::OkStatus();
}

}  // namespace nearfield::testing
