// Require: a check of a fuzzer, which libFuzzer notices as a crash.
#pragma once

#include <cstdlib>

namespace nearfield {

// Aborts unless the condition is true.
inline void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace nearfield
