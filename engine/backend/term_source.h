// TermSource: the row terms of one query (score/row_terms.h), as a backend reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "nearfield/engine/row_terms.h"

namespace nearfield::backend {

// The objects that decide which numbers a term reads in a generation. Terms with equal sources read
// equal numbers. Keeps none of the objects alive.
struct NumbersSource {
  std::weak_ptr<const void> numbers;     // or the filter
  std::weak_ptr<const void> generation;  // its rows and their ordinals
  std::weak_ptr<const void> versions;    // its updated rows

  bool operator==(const NumbersSource& other) const {
    const auto same = [](const std::weak_ptr<const void>& a, const std::weak_ptr<const void>& b) {
      return !a.owner_before(b) && !b.owner_before(a);
    };
    return same(numbers, other.numbers) && same(generation, other.generation) &&
           same(versions, other.versions);
  }
  // Returns whether no later search can have an equal source.
  bool expired() const { return numbers.expired() || generation.expired(); }
};

// Generations are those of one search, by their positions. Thread safety: thread-safe.
class TermSource {
 public:
  virtual ~TermSource() = default;
  virtual double score_weight() const = 0;
  // Returns the sum of the terms of a row.
  virtual double SumOf(size_t generation, uint32_t slot) const = 0;
  // Returns a value that the sum of no row of [begin, begin + rows_count) exceeds.
  virtual double SumUpper(size_t generation, int64_t begin, int64_t rows_count) const = 0;

  // The terms, for a backend that computes their sums itself, in the order of the sum.
  virtual size_t terms_count() const = 0;  // at most kTermsMax
  virtual const TermParameters& parameters(size_t term) const = 0;
  virtual NumbersSource SourceOf(size_t term, size_t generation) const = 0;
  // Copies the number of each row of [begin, begin + numbers.size()); for kIs 1 or 0.
  virtual void CopyNumbers(size_t term, size_t generation, int64_t begin,
                           absl::Span<double> numbers) const = 0;
};

}  // namespace nearfield::backend
