// Facets: the number of rows of each value of an attribute.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nearfield/client/attributes.h"
#include "nearfield/client/filter.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

struct FacetsOptions {
  uint32_t values_max = 100;     // values of each attribute: 1 .. Limits.facet_values_max
  std::optional<Filter> filter;  // count only rows that pass
  // Count only rows with at least this score for the query: both or neither. Views are borrowed.
  std::optional<Query> query;
  std::optional<float> score_threshold;
  std::optional<RowTerms> terms;                           // of these scores
  SearchPriority priority = SearchPriority::kInteractive;  // of the scans for the query
  std::optional<uint64_t> min_epoch;                       // as in a search
  std::optional<uint64_t> at_epoch;                        // as in a search
  std::optional<uint64_t> incarnation;                     // as in a search
  std::optional<std::chrono::milliseconds> deadline;
};

// The values of one attribute among the counted rows.
struct Facet {
  std::string attribute;
  AttributeValues values;             // the largest count first; of equal counts, the smaller value
  std::vector<uint64_t> rows_counts;  // of each value
  uint64_t values_count = 0;          // distinct values, those that are not in `values` included
  uint64_t rows_missing = 0;          // rows without a value
};

struct FacetsAnswer {
  uint64_t epoch = 0;
  uint64_t incarnation = 0;   // of the epoch
  uint64_t rows_count = 0;    // rows that were counted
  std::vector<Facet> facets;  // in the order of the collection's declaration
};

}  // namespace nearfield::client
