// Checks at memory speed that all values of uploaded rows are finite.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "nearfield/engine/types.h"

namespace nearfield::corpus {

// Returns the index of the first element that is infinite or NaN. `rows` holds whole elements,
// little-endian, at any alignment.
std::optional<int64_t> FindNonFinite(RowType row_type, absl::Span<const uint8_t> rows);

}  // namespace nearfield::corpus
