// The random inputs of a test run: its seed (--seed=N, else NEARFIELD_TEST_SEED, else a random
// number), which is printed at the start, and their number.
#pragma once

#include <cstdint>

namespace nearfield::testing {

// Returns the seed; constant during the run.
uint64_t TestSeed();

// Returns how many random inputs a law is tried with: a quarter in a program with a sanitizer,
// which makes each several times slower.
constexpr int RandomRounds(int rounds) {
#ifdef NEARFIELD_SANITIZED
  return (rounds + 3) / 4;
#else
  return rounds;
#endif
}

}  // namespace nearfield::testing
