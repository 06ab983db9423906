// Checks of uploaded rows at memory speed: finite values, rows of zeros.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "nearfield/engine/types.h"

namespace nearfield::corpus {

// Returns the index of the first element that is infinite or NaN. `rows` holds whole elements,
// little-endian, at any alignment.
std::optional<int64_t> FindNonFinite(RowType row_type, absl::Span<const uint8_t> rows);

// Returns the index of the first row all of whose elements are +0 or -0. `rows` holds rows of `dim`
// elements.
std::optional<int64_t> FindZeroRow(RowType row_type, int64_t dim, absl::Span<const uint8_t> rows);

}  // namespace nearfield::corpus
