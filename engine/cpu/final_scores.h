// FinalScores: the final scores of one query in one generation. Without row terms they are the
// scores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/term_source.h"
#include "engine/score/row_terms.h"

namespace nearfield::cpu {

// The final score of one row, as a function of its score or of bounds of it.
struct FinalScoreOfRow {
  bool has_terms = false;
  double score_weight = 1;
  double sum = 0;  // of the row's terms

  float Of(float s) const { return has_terms ? score::FinalScore(score_weight, s, sum) : s; }
  float Upper(float upper) const {
    return has_terms ? score::FinalUpper(score_weight, upper, sum) : upper;
  }
  float Lower(float lower) const {
    return has_terms ? score::FinalLower(score_weight, lower, sum) : lower;
  }
};

// Consecutive rows of one generation, and the largest sum of terms in them. Queries with the same
// terms compute it once if they follow each other.
class TileSums {
 public:
  TileSums(size_t generation, int64_t begin, int64_t rows_count)
      : generation_(generation), begin_(begin), rows_count_(rows_count) {}

  double UpperOf(const backend::TermSource& terms) {
    if (&terms != known_) upper_ = terms.SumUpper(generation_, begin_, rows_count_);
    known_ = &terms;
    return upper_;
  }

 private:
  const size_t generation_;
  const int64_t begin_;
  const int64_t rows_count_;
  const backend::TermSource* known_ = nullptr;
  double upper_ = 0;
};

// Borrows the terms.
struct FinalScores {
  const backend::TermSource* terms = nullptr;  // null: none
  size_t generation = 0;

  FinalScoreOfRow OfRow(int64_t slot) const {
    if (terms == nullptr) return {};
    return {true, terms->score_weight(), terms->SumOf(generation, static_cast<uint32_t>(slot))};
  }

  // Returns a score that the rows of a tile must reach: a row with a smaller one, or with an upper
  // bound below it, has a final score below the threshold.
  float ScoreToReach(float threshold, TileSums& tile) const {
    if (terms == nullptr) return threshold;
    return score::ScoreToReach(terms->score_weight(), tile.UpperOf(*terms), threshold);
  }
};

}  // namespace nearfield::cpu
