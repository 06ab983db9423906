// Checks the values of a row before it is sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "nearfield/client/types.h"

namespace nearfield::client {

struct RowCheck {
  std::optional<uint64_t> non_finite;  // the first element that is infinite or NaN
  bool is_zero = false;                // all elements are +0 or -0
};

// Cost: one pass over the bytes. Requires: whole elements.
RowCheck CheckRow(DataType dtype, std::string_view row);

}  // namespace nearfield::client
