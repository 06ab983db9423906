// Converts std::bad_alloc to a status at the boundary of the engine: no function of nearfield lets
// an exception escape.
#pragma once

#include <new>

#include "absl/status/status.h"

namespace nearfield {

// Created once, so that a copy needs no memory.
inline const absl::Status& OutOfMemory() {
  static const auto* const status =
      new absl::Status(absl::StatusCode::kResourceExhausted, "the host is out of memory");
  return *status;
}

// Returns work(), or ResourceExhausted if the host ran out of memory inside it. `work` returns a
// Status or a StatusOr.
template <typename Work>
auto CatchOutOfMemory(Work work) -> decltype(work()) {
  try {
    OutOfMemory();
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace nearfield
