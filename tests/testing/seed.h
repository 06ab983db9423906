// The random seed of a test run: --seed=N, else NEARFIELD_TEST_SEED, else a random number. It is
// printed at the start.
#pragma once

#include <cstdint>

namespace nearfield::testing {

// Returns the seed; constant during the run.
uint64_t TestSeed();

}  // namespace nearfield::testing
