// SearchCorpus: pins one snapshot of a corpus (batch.at, or the current one) and answers a batch of
// queries over it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/corpus/corpus.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

struct SearchLimits {
  int32_t k_max = 0;
  int32_t batch_max = 0;
};

// As Engine::Search.
absl::StatusOr<SearchResult> SearchCorpus(const corpus::Corpus& corpus, const SearchLimits& limits,
                                          const SearchBatch& batch);

}  // namespace nearfield
