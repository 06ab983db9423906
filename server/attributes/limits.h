// AttributeLimits: limits of one collection's declaration, one row and one filter.
#pragma once

#include <cstdint>

namespace nearfield::server {

// proto/nearfield/v1/common.proto promises these defaults.
struct AttributeLimits {
  int64_t attributes_max = 64;               // declared attributes of a collection
  int64_t attributes_ever_max = 1000;        // with those that were dropped
  int64_t keyword_bytes_max = 1024;          // one keyword of a row
  int64_t list_values_max = 1024;            // one list of a row
  int64_t row_bytes_max = 64 << 10;          // all attributes of a row, encoded (row_encoding.h)
  int64_t filter_depth_max = 8;              // levels of a filter, which recursion evaluates
  int64_t filter_conditions_max = 256;       // conditions (nodes) of a filter
  int64_t filter_values_max = 4096;          // values, or ids, of one condition
  int64_t filter_bytes_max = 64 << 10;       // a filter (FilterBytes() in filter_tree.h)
  int64_t filter_text_bytes_max = 64 << 10;  // a filter as text
  int64_t filter_args_max = 4096;            // arguments of a filter
  int64_t filter_args_bytes_max = 64 << 10;  // all arguments of a filter, encoded as in the proto
  int64_t facet_values_max = 4096;           // values of one attribute that Facets returns
};

}  // namespace nearfield::server
