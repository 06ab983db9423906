// SlotTerms: the row terms of one query over the rows of a snapshot, by slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "engine/backend/term_source.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/row_terms.h"

namespace nearfield::corpus {

// Reads the numbers and filters of the terms by ordinal, where they are: it copies nothing, and
// needs no memory for each row. Immutable.
class SlotTerms final : public backend::TermSource {
 public:
  // Borrows the snapshot.
  SlotTerms(const CorpusSnapshot& snapshot, std::shared_ptr<const RowTerms> terms)
      : snapshot_(snapshot), terms_(std::move(terms)) {}

  double score_weight() const override { return terms_->score_weight; }
  double SumOf(size_t generation, uint32_t slot) const override;
  // Cost: for each term one step for each run of ordinals, for each 256 rows of a run, and for each
  // updated row.
  double SumUpper(size_t generation, int64_t begin, int64_t rows_count) const override;

  size_t terms_count() const override { return terms_->terms.size(); }
  const TermParameters& parameters(size_t term) const override {
    return terms_->terms[term].parameters;
  }
  backend::NumbersSource SourceOf(size_t term, size_t generation) const override;
  void CopyNumbers(size_t term, size_t generation, int64_t begin,
                   absl::Span<double> numbers) const override;

 private:
  const CorpusSnapshot& snapshot_;
  const std::shared_ptr<const RowTerms> terms_;
};

// Returns the number of a row that a term reads; for kIs 1 or 0.
inline double NumberOf(const RowTerm& term, uint32_t ordinal) {
  if (term.parameters.form != TermForm::kIs) return term.numbers->at(ordinal);
  return term.filter->Chooses(ordinal) ? 1.0 : 0.0;
}

}  // namespace nearfield::corpus
