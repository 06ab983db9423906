// The int8 codes of rows and queries in a rotated space, with bounds on their residuals. For
// cosine, rows and queries are divided by their norms first.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/bound/certified_bound.h"
#include "engine/bound/rotation.h"
#include "nearfield/engine/types.h"

namespace nearfield::bound {

// Encodes a row and returns its bound. row: [dimension], finite. codes: [dimension], written, -127
// to 127.
RowBound EncodeRow(const Rotation& rotation, Metric metric, absl::Span<const float> row,
                   absl::Span<int8_t> codes);

struct RowBounds {
  RowBound first;  // of the first code alone
  RowBound both;
};

// Encodes a row as two codes: the second is of what the first leaves. first, second: [dimension]
// each, written, -127 to 127.
RowBounds EncodeRowTwice(const Rotation& rotation, Metric metric, absl::Span<const float> row,
                         absl::Span<int8_t> first, absl::Span<int8_t> second);

struct QueryBounds {
  QueryBound both;        // with both codes, or with those of the whole query as the first
  QueryBound first_only;  // with only the first code; its second_scale is 0
};

// Encodes a query as two codes and returns its bounds. query: [dimension], finite, for cosine not
// all zeros. first, second: [dimension] each, written. The bounds are +inf if nothing can be
// proven.
QueryBounds EncodeQuery(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                        absl::Span<int8_t> first, absl::Span<int8_t> second);

// As EncodeQuery, with larger codes of the whole query in place of the second ones. first:
// [dimension], or empty. whole: [dimension], written, -whole_max to whole_max.
QueryBounds EncodeQueryWhole(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                             absl::Span<int8_t> first, absl::Span<int16_t> whole,
                             int32_t whole_max);

}  // namespace nearfield::bound
