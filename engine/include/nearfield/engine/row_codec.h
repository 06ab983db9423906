// Exact conversion of row elements from bytes to fp32, and a check of the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nearfield/engine/types.h"

namespace nearfield {

// Appends the elements of `bytes` (little-endian, `type`) to `values`. Every value of a narrow type
// is a value of fp32, so nothing is rounded; denormals, infinities and NaN are preserved. Cost: one
// pass. Errors: InvalidArgument (the bytes are not a whole number of elements); then `values` is
// unchanged.
absl::Status WidenToFloat(RowType type, absl::Span<const uint8_t> bytes,
                          std::vector<float>* values);

// Returns the place of the first value that is infinite or not a number; nullopt if all are finite.
// Cost: one pass without a branch for each value.
std::optional<size_t> FirstNotFinite(absl::Span<const float> values);

}  // namespace nearfield
