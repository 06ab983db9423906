#include "tests/server/row_model.h"

#include <cstddef>

#include "tests/testing/corpora.h"

namespace nearfield::server {

std::vector<uint64_t> RowModel::Passing(const FilterTree& filter,
                                        const std::vector<AttributeSpec>& specs) const {
  std::vector<uint64_t> ids;
  for (const auto& [id, row] : rows) {
    if (Passes(filter, specs, row.attributes, id)) ids.push_back(id);
  }
  return ids;
}

std::vector<uint64_t> RowModel::AllIds() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, row] : rows) ids.push_back(id);
  return ids;
}

Neighbors ModelAnswer(const CollectionSpec& spec, const RowModel& model,
                      absl::Span<const uint64_t> ids, const ModelQuery& query) {
  testing::Corpus corpus = {.spec = spec, .rows = {}, .ids = IdColumn(IdType::kUint64)};
  for (const uint64_t id : ids) {
    if (id == query.row_id) continue;  // excluded from its own answer
    const std::vector<float>& values = model.rows.at(id).values;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(values.data());
    corpus.rows.insert(corpus.rows.end(), bytes, bytes + values.size() * sizeof(float));
    corpus.ids.AppendNumber(id);
  }
  const std::vector<float>& vector =
      query.row_id.has_value() ? model.rows.at(*query.row_id).values : query.vector;
  const Neighbors all = testing::OracleAnswer(corpus, vector, query.skip + query.k);
  Neighbors answer;
  for (auto place = static_cast<size_t>(query.skip); place < all.scores.size(); ++place) {
    if (query.score_threshold.has_value() && all.scores[place] < *query.score_threshold) break;
    answer.ids.AppendFrom(all.ids, static_cast<int64_t>(place));
    answer.scores.push_back(all.scores[place]);
  }
  return answer;
}

}  // namespace nearfield::server
