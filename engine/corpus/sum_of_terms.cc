// SumOfTerms, in a library of its own for callers that need no other part of the engine.
#include "engine/corpus/slot_terms.h"
#include "engine/score/row_terms.h"
#include "nearfield/engine/row_terms.h"

namespace nearfield {

double SumOfTerms(const RowTerms& terms, uint32_t ordinal) {
  score::TermSum sum;
  for (const RowTerm& term : terms.terms) {
    sum.Add(score::TermOf(term.parameters, corpus::NumberOf(term, ordinal)));
  }
  return sum.value();
}

}  // namespace nearfield
