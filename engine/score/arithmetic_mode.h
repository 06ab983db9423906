// The floating-point environment that scores need: round to nearest even, denormals neither flushed
// (FTZ) nor read as zero (DAZ). The environment belongs to a thread, and a library in the process
// may have changed it. So every thread that computes scores checks it once before it starts. Host
// only.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace nearfield::score {

// Checks the calling thread. Errors: FailedPrecondition (says what is set).
inline absl::Status CheckArithmeticMode() {
  if (std::fegetround() != FE_TONEAREST) {
    return absl::FailedPreconditionError(
        "arithmetic mode: this thread does not round to nearest; scores would not be exact");
  }
#if defined(__SSE2__)
  constexpr uint32_t kFlushToZero = 0x8000;
  constexpr uint32_t kDenormalsAreZero = 0x0040;
  constexpr uint32_t kRounding = 0x6000;  // 0: to nearest even
  const uint32_t control = _mm_getcsr();
  if ((control & (kFlushToZero | kDenormalsAreZero | kRounding)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("arithmetic mode: MXCSR of this thread is 0x", absl::Hex(control),
                     " (FTZ, DAZ and rounding bits must be 0); scores would not be exact"));
  }
#endif
  return absl::OkStatus();
}

}  // namespace nearfield::score
