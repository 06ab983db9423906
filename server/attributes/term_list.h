// TermList: the row terms of a request, whose attributes were found in a schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nearfield/engine/row_terms.h"
#include "server/attributes/filter.h"

namespace nearfield::server {

// Immutable. proto/nearfield/v1/terms.proto, "Row terms", defines the meaning of the terms.
class TermList {
 public:
  struct Term {
    TermParameters parameters;
    int32_t attribute = -1;        // its number; except kIs
    std::optional<Filter> filter;  // kIs
  };

  // Requires: parameters that CheckRowTerms accepts; attributes that are scalars, and no keywords.
  TermList(double score_weight, std::vector<Term> terms);

  double score_weight() const { return score_weight_; }
  const std::vector<Term>& terms() const { return terms_; }
  // Returns bytes that are equal only for terms that give every row the same final score.
  const std::string& canonical() const { return canonical_; }
  // Returns the bytes of host memory that the list holds.
  int64_t bytes() const;

 private:
  double score_weight_;
  std::vector<Term> terms_;
  std::string canonical_;
};

}  // namespace nearfield::server
