// RowTerms: what a query adds to the score of a row: recency, importance, boosts. The terms read
// numbers of the row and whether a filter chooses it, both by ordinal (row_filter.h).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nearfield/engine/row_filter.h"

namespace nearfield {

// The function that a term computes from the number `a` of a row. Formulas:
// engine/score/row_terms.h.
enum class TermForm : uint8_t {
  kLinear = 1,    // (a - origin) * scale
  kClamped = 2,   // the same, at lowest `low` and at most `high`
  kHalfLife = 3,  // 2 ^ -(max(0, |a - origin| - offset) * scale): halved every 1 / scale
  kIs = 4,        // 1 if a filter chooses the row, else 0
};

// All numbers are finite. A term does not read the parameters that its form does not name.
struct TermParameters {
  TermForm form = TermForm::kLinear;
  double weight = 1;  // the term is weight * form; at most kTermParameterMax in magnitude
  double origin = 0;
  double scale = 1;    // at most kTermParameterMax in magnitude; kHalfLife: >= 0
  double low = 0;      // kClamped: <= high
  double high = 0;     // kClamped
  double offset = 0;   // kHalfLife: >= 0
  double missing = 0;  // in place of the form for a row without a number; not kIs. Limit as weight
};
inline constexpr double kTermParameterMax = 0x1p60;
// Maximum number of terms of a query.
inline constexpr size_t kTermsMax = 16;

// Bounds of some rows' numbers.
struct NumberRange {
  // Bounds of the numbers; lowest > highest if no row has one.
  double lowest = std::numeric_limits<double>::infinity();
  double highest = -std::numeric_limits<double>::infinity();
  bool some_missing = false;  // a row has no number

  void Add(double number) {
    if (!std::isfinite(number)) {
      some_missing = true;
      return;
    }
    if (number < lowest) lowest = number;
    if (number > highest) highest = number;
  }
  void Add(const NumberRange& other) {
    if (other.lowest < lowest) lowest = other.lowest;
    if (other.highest > highest) highest = other.highest;
    some_missing = some_missing || other.some_missing;
  }
};

// One number for each row, by ordinal. A number that is not finite, and a row after the last
// number, count as a row without a number. Immutable.
class RowNumbers {
 public:
  explicit RowNumbers(std::vector<double> numbers) : numbers_(std::move(numbers)) {
    ranges_.resize(BlocksOf(numbers_.size()));
    for (size_t row = 0; row < numbers_.size(); ++row) ranges_[row / kBlockRows].Add(numbers_[row]);
  }

  // Returns the number of a row; one that is not finite if it has none.
  double at(uint32_t ordinal) const {
    return ordinal < numbers_.size() ? numbers_[ordinal] : std::numeric_limits<double>::quiet_NaN();
  }
  // Returns bounds of rows [first, first + count), possibly wider than needed. Cost: one step for
  // each kBlockRows rows.
  NumberRange RangeOf(uint32_t first, int64_t count) const {
    NumberRange range;
    const auto end = static_cast<size_t>(int64_t{first} + count);
    if (end > numbers_.size()) range.some_missing = true;
    for (size_t block = first / kBlockRows; block * kBlockRows < end && block < ranges_.size();
         ++block) {
      range.Add(ranges_[block]);
    }
    return range;
  }
  // Returns the bytes of host memory of this many numbers.
  static int64_t BytesOf(size_t count) {
    return static_cast<int64_t>(count * sizeof(double) + BlocksOf(count) * sizeof(NumberRange));
  }

 private:
  static constexpr size_t kBlockRows = 256;
  static constexpr size_t BlocksOf(size_t count) { return (count + kBlockRows - 1) / kBlockRows; }

  std::vector<double> numbers_;
  std::vector<NumberRange> ranges_;  // of each kBlockRows rows
};

struct RowTerm {
  TermParameters parameters;
  std::shared_ptr<const RowNumbers> numbers;  // except kIs
  std::shared_ptr<const RowFilter> filter;    // kIs
};

// The final score of a row is score_weight * score + ((t_1 + t_2) + ...): order, thresholds and
// answers are those of final scores. Immutable once it is passed to a search.
struct RowTerms {
  double score_weight = 1;  // > 0, at most kTermParameterMax
  std::vector<RowTerm> terms;
};

// Errors: InvalidArgument (too many terms, a parameter out of range, a term without its numbers or
// filter). `name` is the field that has the terms.
absl::Status CheckRowTerms(const RowTerms& terms, absl::string_view name);

// Returns the sum of the terms of a row.
double SumOfTerms(const RowTerms& terms, uint32_t ordinal);

}  // namespace nearfield
