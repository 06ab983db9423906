// Final scores of one query of a batch, and bounds of them.
#pragma once

#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/score/row_terms.h"

namespace nearfield::gpu {

// kTerms: the queries have row terms. Without, final scores are the scores.
template <bool kTerms>
class FinalScores {
 public:
  __device__ FinalScores(const BatchArgs& args, const CodedCorpus& corpus)
      : terms_(args.terms + (kTerms ? blockIdx.x : 0)), corpus_(corpus) {}

  __device__ float Of(uint32_t row_index, float score) const {
    if constexpr (!kTerms) return score;
    return score::FinalScore(terms_->score_weight, score, SumOf(row_index));
  }
  __device__ float Upper(uint32_t row_index, float upper) const {
    if constexpr (!kTerms) return upper;
    return score::FinalUpper(terms_->score_weight, upper, SumOf(row_index));
  }
  __device__ bound::ScoreRange Range(uint32_t row_index, bound::ScoreRange range) const {
    if constexpr (kTerms) {
      const double sum = SumOf(row_index);
      range.lower = score::FinalLower(terms_->score_weight, range.lower, sum);
      range.upper = score::FinalUpper(terms_->score_weight, range.upper, sum);
    }
    return range;
  }

 private:
  __device__ double SumOf(uint32_t row_index) const {
    const int generation = corpus_.GenerationIndex(row_index);
    return terms_->SumOf(generation, row_index - corpus_.generations[generation].rows_begin);
  }

  const BatchTermList* const terms_;
  const CodedCorpus& corpus_;
};

}  // namespace nearfield::gpu
