// RowTerms: what a search adds to the score of a row: recency, importance, boosts.
//
//   SearchOptions options;
//   options.terms = RowTerms{.terms = {
//       {HalfLifeTerm{.attribute = "written", .origin = now_us, .half_life = 30 * kDayUs}, 0.3},
//       {LinearTerm{.attribute = "importance"}, 0.1},
//       {FilterTerm{Filter::Equal("kind", "note")}, 0.05}}};
//
// proto/nearfield/v1/terms.proto, "Row terms", has the formulas and the limits. A timestamp is its
// microseconds since 1970.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/client/filter.h"

namespace nearfield::client {

// The functions of the value `a` that a row has of an attribute. `missing` is in place of the
// function for a row without a value.

// (a - origin) * scale
struct LinearTerm {
  std::string attribute;
  double origin = 0;
  double scale = 1;
  double missing = 0;

  bool operator==(const LinearTerm& other) const = default;
};

// As LinearTerm, but at lowest `low` and at most `high`.
struct ClampedTerm {
  std::string attribute;
  double origin = 0;
  double scale = 1;
  double low = 0;
  double high = 0;
  double missing = 0;

  bool operator==(const ClampedTerm& other) const = default;
};

// 1 at the origin, and at most `offset` from it; then half as much for each half_life.
struct HalfLifeTerm {
  std::string attribute;
  double origin = 0;
  double half_life = 0;
  double offset = 0;
  double missing = 0;

  bool operator==(const HalfLifeTerm& other) const = default;
};

// 1 for a row that passes the filter, else 0.
struct FilterTerm {
  Filter filter;

  bool operator==(const FilterTerm& other) const = default;
};

struct RowTerm {
  std::variant<LinearTerm, ClampedTerm, HalfLifeTerm, FilterTerm> form;
  double weight = 1;  // the term is weight * form

  bool operator==(const RowTerm& other) const = default;
};

// The final score of a row is score_weight * score + the terms. Only the server knows the
// attributes, so only the server refuses a term.
struct RowTerms {
  double score_weight = 1;
  std::vector<RowTerm> terms;  // at most 16

  bool operator==(const RowTerms& other) const = default;
};

// Returns the bytes of the RowTerms message, such as those of audit records. Errors:
// InvalidArgument (a filter cannot be sent).
absl::StatusOr<std::string> SerializeTerms(const RowTerms& terms);
// Errors: InvalidArgument (not such a message).
absl::StatusOr<RowTerms> ParseTerms(std::string_view message);

// The parts of a final score: score_weight * score + term_sum.
struct ScoreParts {
  float score = 0;      // of the vectors
  double term_sum = 0;  // 0 without terms
};

}  // namespace nearfield::client
