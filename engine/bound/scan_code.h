// The codes of a row, and of a query: int8 in a rotated space, with what they leave out. For cosine
// both are divided by their norms first.
#ifndef NEARFIELD_ENGINE_BOUND_SCAN_CODE_H_
#define NEARFIELD_ENGINE_BOUND_SCAN_CODE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "engine/bound/certified_bound.h"
#include "engine/bound/rotation.h"
#include "nearfield/engine/types.h"

namespace nearfield::corpus {

// row: [dimension], finite. codes: [dimension], written; -127 to 127.
score::RowBound EncodeRow(const Rotation& rotation, Metric metric, absl::Span<const float> row,
                          absl::Span<int8_t> codes);

struct QueryBounds {
  score::QueryBound both;        // of both codes
  score::QueryBound first_only;  // of the first alone; its second_scale is 0
};

// query: [dimension], finite, for cosine not all zeros. first, second: [dimension] each, written.
// Where nothing can be proven, the bounds are +inf.
QueryBounds EncodeQuery(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                        absl::Span<int8_t> first, absl::Span<int8_t> second);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_BOUND_SCAN_CODE_H_
