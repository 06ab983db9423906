// Turns std::bad_alloc into a status at the edge of the engine: no exception leaves a function of
// nearfield.
#ifndef NEARFIELD_ENGINE_BASE_OUT_OF_MEMORY_H_
#define NEARFIELD_ENGINE_BASE_OUT_OF_MEMORY_H_

#include <new>

#include "absl/status/status.h"

namespace nearfield {

// Made once: a copy takes no memory.
inline const absl::Status& OutOfMemory() {
  static const auto* const status =
      new absl::Status(absl::StatusCode::kResourceExhausted, "the host is out of memory");
  return *status;
}

// work(), or ResourceExhausted where the host ran out of memory inside it. work returns a Status or
// a StatusOr.
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

#endif  // NEARFIELD_ENGINE_BASE_OUT_OF_MEMORY_H_
