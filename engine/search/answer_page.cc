#include "engine/search/answer_page.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace nearfield {

using corpus::Corpus;
using corpus::CorpusSnapshot;
using corpus::GenerationState;
using corpus::RowRef;

void GatherOne(const Corpus& corpus, const CorpusSnapshot& snapshot, absl::Span<const Hit> hits,
               const RowParts& parts, Neighbors* neighbors) {
  neighbors->ids = IdColumn(corpus.spec().id_type);
  neighbors->ids.Reserve(static_cast<int64_t>(hits.size()));
  std::vector<float> scores;
  scores.reserve(hits.size());
  for (size_t i = 0; i < hits.size(); ++i) {
    if (i + kRowsAhead < hits.size()) {
      const RowRef& later = hits[i + kRowsAhead].row;
      snapshot.generations[later.generation].generation->ids.Prefetch(later.slot);
    }
    const RowRef& row = hits[i].row;
    const GenerationState& state = snapshot.generations[row.generation];
    neighbors->ids.AppendFrom(state.generation->ids, row.slot);
    scores.push_back(hits[i].score);
    if (parts.payloads) neighbors->payloads.Append(state.payload(row.slot));
    if (parts.ordinals) neighbors->ordinals.push_back(state.ordinal(row.slot));
  }
  neighbors->scores = std::move(scores);
}

}  // namespace nearfield
