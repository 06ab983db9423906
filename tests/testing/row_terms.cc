#include "tests/testing/row_terms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/score/row_terms.h"

namespace nearfield::testing {

TestTerms::TestTerms(DrawnTerms terms) : terms_(std::move(terms)) {
  for (const DrawnTerms::Term& term : terms_.terms) {
    std::vector<std::shared_ptr<int>>& of_term = sources_.emplace_back();
    for (size_t g = 0; g < term.numbers.size(); ++g) of_term.push_back(std::make_shared<int>());
  }
}

backend::NumbersSource TestTerms::SourceOf(size_t term, size_t generation) const {
  const std::shared_ptr<int>& source = sources_[term][generation];
  return {.numbers = source, .generation = source, .versions = {}};
}

void TestTerms::CopyNumbers(size_t term, size_t generation, int64_t begin,
                            absl::Span<double> numbers) const {
  const std::vector<double>& all = terms_.terms[term].numbers[generation];
  std::copy_n(all.begin() + begin, numbers.size(), numbers.begin());
}

double TestTerms::SumOf(size_t generation, uint32_t slot) const {
  score::TermSum sum;
  for (const DrawnTerms::Term& term : terms_.terms) {
    sum.Add(score::TermOf(term.parameters, term.numbers[generation][slot]));
  }
  return sum.value();
}

double TestTerms::SumUpper(size_t generation, int64_t begin, int64_t rows_count) const {
  score::TermSum sum;
  for (const DrawnTerms::Term& term : terms_.terms) {
    NumberRange range;
    for (int64_t slot = begin; slot < begin + rows_count; ++slot) {
      range.Add(term.numbers[generation][static_cast<size_t>(slot)]);
    }
    sum.Add(score::TermUpper(term.parameters, range));
  }
  return sum.value();
}

TermParameters DrawTerm(double magnitude, Random& random) {
  TermParameters term;
  term.form = static_cast<TermForm>(random.Between(1, 5));
  term.weight = std::clamp(magnitude * (random.OneIn(3) ? -random.Unit() : random.Unit()),
                           -kTermParameterMax, kTermParameterMax);
  term.origin = random.OneIn(2) ? 0.0 : static_cast<double>(random.Gaussian());
  term.scale = random.OneIn(3) ? 1.0 : std::abs(static_cast<double>(random.Gaussian()));
  term.low = -random.Unit();
  term.high = random.Unit();
  term.offset = random.OneIn(2) ? 0.0 : random.Unit();
  term.missing = random.OneIn(2) ? 0.0 : static_cast<double>(random.Gaussian());
  if (term.form == TermForm::kLinear && random.OneIn(2)) term.scale = -term.scale;
  return term;
}

double DrawNumber(const TermParameters& term, Random& random) {
  if (term.form == TermForm::kIs) return random.OneIn(2) ? 1.0 : 0.0;
  if (random.OneIn(20)) return std::numeric_limits<double>::quiet_NaN();
  if (random.OneIn(200)) return random.OneIn(2) ? -0x1p62 : score::kFiniteMax;
  return 2.0 * static_cast<double>(random.Gaussian());
}

DrawnTerms DrawTerms(const std::vector<int64_t>& rows, double magnitude, Random& random) {
  constexpr double kFactors[] = {0.0, 0x1p-20, 0.1, 1.0, 100.0};
  DrawnTerms drawn;
  drawn.score_weight = random.OneIn(2) ? 1.0 : random.Unit() + 0x1p-30;
  drawn.terms.resize(static_cast<size_t>(random.Between(1, 5)));
  for (DrawnTerms::Term& term : drawn.terms) {
    term.parameters = DrawTerm(random.OneOf<double>(kFactors) * magnitude, random);
    // The numbers of the rows are drawn, all equal, or ascend.
    const int64_t kind = random.Between(0, 4);
    const double same = DrawNumber(term.parameters, random);
    for (const int64_t rows_count : rows) {
      std::vector<double>& numbers = term.numbers.emplace_back();
      for (int64_t row = 0; row < rows_count; ++row) {
        numbers.push_back(kind == 0 ? same : DrawNumber(term.parameters, random));
      }
      if (kind == 1) {
        std::sort(numbers.begin(), numbers.end(),
                  [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
      }
    }
  }
  return drawn;
}

}  // namespace nearfield::testing
