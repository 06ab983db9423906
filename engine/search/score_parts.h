// FillScoreParts: the parts of final scores, for answers that explain themselves.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/slot_terms.h"
#include "engine/search/merge_best.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// An answer to explain. Borrowed for the call.
struct ExplainedAnswer {
  absl::Span<const float> query;             // [dim]
  const corpus::SlotTerms* terms = nullptr;  // null: none
  absl::Span<const Hit> hits;
};

// Fills in neighbors->parts. With terms, reads the exact rows of the answer a few at a time and
// scores them again. Errors: Unavailable (device lost).
absl::Status FillScoreParts(const corpus::Corpus& corpus, const corpus::CorpusSnapshot& snapshot,
                            const ExplainedAnswer& answer, Neighbors* neighbors);

}  // namespace nearfield
