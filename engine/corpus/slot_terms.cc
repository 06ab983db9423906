#include "engine/corpus/slot_terms.h"

#include "engine/score/row_terms.h"

namespace nearfield::corpus {
namespace {

// Adds the numbers of rows [first, first + count), by ordinal, to `range`.
void AddRows(const RowTerm& term, uint32_t first, int64_t count, NumberRange* range) {
  if (term.parameters.form != TermForm::kIs) {
    range->Add(term.numbers->RangeOf(first, count));
    return;
  }
  const std::vector<uint64_t>& chosen = term.filter->chosen;
  const auto end = static_cast<size_t>(int64_t{first} + count);
  range->Add(0.0);
  for (size_t word = first / 64; word * 64 < end && word < chosen.size(); ++word) {
    if (chosen[word] != 0) range->Add(1.0);
  }
}

}  // namespace

double SlotTerms::SumOf(size_t generation, uint32_t slot) const {
  return SumOfTerms(*terms_, snapshot_.generations[generation].ordinal(slot));
}

double SlotTerms::SumUpper(size_t generation, int64_t begin, int64_t rows_count) const {
  const GenerationState& state = snapshot_.generations[generation];
  const int64_t end = begin + rows_count;
  score::TermSum sum;
  for (const RowTerm& term : terms_->terms) {
    NumberRange range;
    state.generation->ordinals.ForEachRun(begin, end, [&](uint32_t ordinal, int64_t count) {
      AddRows(term, ordinal, count, &range);
    });
    if (state.versions != nullptr) {
      state.versions->ForEachIn(begin, end, [&](const RowVersion& version) {
        AddRows(term, version.ordinal, 1, &range);
      });
    }
    sum.Add(score::TermUpper(term.parameters, range));
  }
  return sum.value();
}

backend::NumbersSource SlotTerms::SourceOf(size_t term, size_t generation) const {
  const RowTerm& of = terms_->terms[term];
  const GenerationState& state = snapshot_.generations[generation];
  backend::NumbersSource source = {
      .numbers = of.numbers, .generation = state.generation, .versions = state.versions};
  if (of.parameters.form == TermForm::kIs) source.numbers = of.filter;
  return source;
}

void SlotTerms::CopyNumbers(size_t term, size_t generation, int64_t begin,
                            absl::Span<double> numbers) const {
  const RowTerm& of = terms_->terms[term];
  const GenerationState& state = snapshot_.generations[generation];
  const int64_t end = begin + static_cast<int64_t>(numbers.size());
  auto to = numbers.begin();
  state.generation->ordinals.ForEachRun(begin, end, [&](uint32_t ordinal, int64_t count) {
    for (int64_t i = 0; i < count; ++i) *to++ = NumberOf(of, ordinal + static_cast<uint32_t>(i));
  });
  if (state.versions == nullptr) return;
  state.versions->ForEachIn(begin, end, [&](const RowVersion& version) {
    numbers[static_cast<size_t>(version.slot - begin)] = NumberOf(of, version.ordinal);
  });
}

}  // namespace nearfield::corpus
