// Whether this thread computes as exact scores need.
#ifndef NEARFIELD_ENGINE_CPU_ARITHMETIC_CHECK_H_
#define NEARFIELD_ENGINE_CPU_ARITHMETIC_CHECK_H_

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace nearfield::cpu {

// Round to nearest, no flushing of denormal results (FTZ) or inputs (DAZ). Costs a few nanoseconds.
inline bool ArithmeticIsExact() {
#if defined(__x86_64__)
  constexpr uint32_t kFlushToZero = 0x8000;
  constexpr uint32_t kDenormalsAreZero = 0x0040;
  constexpr uint32_t kRounding = 0x6000;
  return (_mm_getcsr() & (kFlushToZero | kDenormalsAreZero | kRounding)) == 0;
#else
  return std::fegetround() == FE_TONEAREST;
#endif
}

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_ARITHMETIC_CHECK_H_
