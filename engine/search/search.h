// SearchCorpus: pins one snapshot of a corpus (batch.at, or the current one) and answers a batch of
// queries over it.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/corpus/corpus.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

struct SearchLimits {
  int32_t k_max = 0;
  int32_t batch_max = 0;
};

// A batch of queries whose answers are ready.
struct FinishedBatch {
  const backend::ScanCost& scan;
  int64_t queries_count = 0;
  std::chrono::steady_clock::time_point begin;  // of the call
};
SearchCost CostOf(const corpus::Corpus& corpus, const corpus::CorpusSnapshot& snapshot,
                  const FinishedBatch& batch);

// As Engine::Search.
absl::StatusOr<SearchResult> SearchCorpus(const corpus::Corpus& corpus, const SearchLimits& limits,
                                          const SearchBatch& batch);

}  // namespace nearfield
