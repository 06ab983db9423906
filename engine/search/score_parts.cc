#include "engine/search/score_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/snapshot.h"
#include "engine/oracle/oracle.h"
#include "engine/score/row_terms.h"

namespace nearfield {
namespace {

// Bounds the additional memory of an answer.
constexpr int64_t kStagingBytes = int64_t{1} << 20;

}  // namespace

absl::Status FillScoreParts(const corpus::Corpus& corpus, const corpus::CorpusSnapshot& snapshot,
                            const ExplainedAnswer& answer, Neighbors* neighbors) {
  std::vector<ScoreParts>& parts = neighbors->parts;
  parts.reserve(answer.hits.size());
  if (answer.terms == nullptr) {
    for (const Hit& hit : answer.hits) parts.push_back({.score = hit.score});
    return absl::OkStatus();
  }
  const CollectionSpec& spec = corpus.spec();
  const auto row_size = static_cast<size_t>(corpus.row_bytes());
  const auto rows_at_once =
      static_cast<size_t>(std::max<int64_t>(1, kStagingBytes / corpus.row_bytes()));
  std::vector<uint8_t> rows;
  std::vector<corpus::RowCopy> copies;
  for (absl::Span<const Hit> rest = answer.hits; !rest.empty();) {
    const absl::Span<const Hit> some = rest.subspan(0, rows_at_once);
    rest.remove_prefix(some.size());
    rows.resize(some.size() * row_size);
    copies.clear();
    for (size_t i = 0; i < some.size(); ++i) {
      copies.push_back({.row = some[i].row, .to = rows.data() + i * row_size});
    }
    ABSL_RETURN_IF_ERROR(corpus::ReadRows(snapshot, copies, corpus.row_bytes()));
    for (size_t i = 0; i < some.size(); ++i) {
      const corpus::RowRef& row = some[i].row;
      parts.push_back({.score = oracle::Score(spec.metric, spec.row_type, answer.query,
                                              rows.data() + i * row_size),
                       .terms = answer.terms->SumOf(row.generation, row.slot)});
      DCHECK_EQ(some[i].score, score::FinalScore(answer.terms->score_weight(), parts.back().score,
                                                 parts.back().terms));
    }
  }
  return absl::OkStatus();
}

}  // namespace nearfield
