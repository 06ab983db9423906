// Exact conversion of row elements from bytes to fp32.
#pragma once

#include <cstdint>
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

}  // namespace nearfield
