// Row terms for tests: random ones, and their sums by the formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/term_source.h"
#include "nearfield/engine/row_terms.h"
#include "tests/testing/random.h"

namespace nearfield::testing {

// The terms of a query, with the numbers of all rows; for kIs 1 or 0.
struct DrawnTerms {
  struct Term {
    TermParameters parameters;
    std::vector<std::vector<double>> numbers;  // [generations][rows]
  };
  double score_weight = 1;
  std::vector<Term> terms;
};

// These terms as a backend reads them.
class TestTerms final : public backend::TermSource {
 public:
  explicit TestTerms(DrawnTerms terms);

  double score_weight() const override { return terms_.score_weight; }
  double SumOf(size_t generation, uint32_t slot) const override;
  double SumUpper(size_t generation, int64_t begin, int64_t rows_count) const override;
  size_t terms_count() const override { return terms_.terms.size(); }
  const TermParameters& parameters(size_t term) const override {
    return terms_.terms[term].parameters;
  }
  backend::NumbersSource SourceOf(size_t term, size_t generation) const override;
  void CopyNumbers(size_t term, size_t generation, int64_t begin,
                   absl::Span<double> numbers) const override;

 private:
  const DrawnTerms terms_;
  std::vector<std::vector<std::shared_ptr<int>>> sources_;  // [terms][generations]
};

// Returns random parameters of a form, whose terms are about `magnitude`.
TermParameters DrawTerm(double magnitude, Random& random);

// Returns a number for a term of DrawTerm: sometimes none.
double DrawNumber(const TermParameters& term, Random& random);

// Returns one to four random terms over generations with these rows. Their sums are tiny, equal or
// large in comparison with `magnitude`, which is about that of the scores.
DrawnTerms DrawTerms(const std::vector<int64_t>& rows, double magnitude, Random& random);

}  // namespace nearfield::testing
