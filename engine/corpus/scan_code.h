// The scan copy of a row, and of a query: int8 codes in a rotated space, with what they leave out.
#ifndef NEARFIELD_ENGINE_CORPUS_SCAN_CODE_H_
#define NEARFIELD_ENGINE_CORPUS_SCAN_CODE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "engine/corpus/rotation.h"
#include "engine/score/certified_bound.h"

namespace nearfield::corpus {

// row: [dimension], finite. codes: [dimension], written; -127 to 127.
score::RowBound EncodeRow(const Rotation& rotation, absl::Span<const float> row,
                          absl::Span<int8_t> codes);

// query: [dimension], finite. first, second: [dimension] each, written. Where nothing can be
// proven, the bound is +inf.
score::QueryBound EncodeQuery(const Rotation& rotation, absl::Span<const float> query,
                              absl::Span<int8_t> first, absl::Span<int8_t> second);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_SCAN_CODE_H_
