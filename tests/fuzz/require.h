// Require: a check of a fuzzer, which libFuzzer notices as a crash.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace nearfield {

// Aborts unless the condition is true, and names the check on stderr.
inline void Require(bool condition, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (condition) return;
  std::fprintf(stderr, "%s:%d: the fuzzer requires what is not true\n", file, line);
  std::abort();
}

}  // namespace nearfield
